use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// Below the range from which Linux takes the ports of outgoing connections: a server that restarts
/// must not find that another connection uses its port.
const FIRST: u16 = 15_432;
const LAST: u16 = 32_767;
const ATTEMPTS: usize = 100;

/// Returns a port that nobody uses now. Somebody may use it by the time the server starts, so be
/// ready to ask again.
pub(crate) fn free() -> io::Result<u16> {
    let mut refusal = io::Error::other("no attempt made");
    for _ in 0..ATTEMPTS {
        let random = RandomState::new().hash_one(0) % u64::from(LAST - FIRST + 1);
        let port = FIRST + u16::try_from(random).unwrap_or_default();
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(_) => return Ok(port),
            Err(error) => refusal = error,
        }
    }
    Err(refusal)
}
