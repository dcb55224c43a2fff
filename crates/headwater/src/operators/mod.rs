//! What operators do, behind one handle: `namespaces.rs` is about one namespace, `server.rs` about
//! the whole server, `lists.rs` about everything of a kind in all namespaces.

mod lists;
mod namespaces;
mod server;

use crate::Headwater;

/// What operators do: namespaces, roles, months, diagnosis, and lists of all namespaces. It comes
/// from [`Headwater::admin`].
#[derive(Debug, Clone)]
pub struct Admin {
    headwater: Headwater,
}

impl Admin {
    pub(crate) fn new(headwater: Headwater) -> Self {
        Admin { headwater }
    }
}
