//! Background work of a node beside delivery: firing what is due, and maintaining months.

pub(crate) mod due;
pub(crate) mod maintenance;
