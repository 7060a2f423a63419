//! What is wrong with the value of a flag, as the user reads it.

use eager_units::BadSize;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WrongValue {
    #[error("`{0}` is not a number from 0.1 to 3600")]
    Interval(String),
    #[error("no signal `{0}`; such as TERM, INT, KILL")]
    Signal(String),
    #[error("`{0}` is no length of time such as `90s`, `10m`, `1h30m` or `2d`")]
    Length(String),
    #[error("this machine has no user `{0}`")]
    User(String),
    #[error("`{0}` is no priority: a whole number from -100 to 100, the higher the earlier")]
    Priority(String),
    #[error("`{0}` is no memory: write the most that the program uses, such as `8GiB`")]
    NoMemory(String),
    #[error(transparent)]
    Size(#[from] BadSize),
    #[error("no column `{name}`; known: {}", known.join(", "))]
    Column { name: String, known: Vec<String> },
}
