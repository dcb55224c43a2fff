//! What operators need: namespaces, who holds back what, the doctor, exports.

mod doctor;
mod holders;
pub(crate) mod namespaces;
mod transfer;

pub use doctor::{DoctorOptions, Finding, Severity};
pub use holders::Holder;
pub use namespaces::{NamespaceChanges, NamespaceStatus};
pub use transfer::{TransferError, Transferred};
