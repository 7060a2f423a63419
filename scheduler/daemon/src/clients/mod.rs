//! Programs that connect: from the connection to their task slots, and what one user may take.

pub mod identity;
pub mod newcomers;
pub mod places;
pub mod quota;
pub mod slots;
