//! What ends a command early, and with which exit code. `docs/exit-codes.md` lists the codes.

use bf_postproc::{MachineError, QueryError, SpecError, compare::CompareError};
use std::{fmt, io, path::Path};

/// Why a command did not do what it was asked to.
#[derive(Debug)]
pub enum Failure {
    /// The command line asks for what cannot be.
    Usage(String),
    /// A file or the system did not play along.
    Failed(String),
    /// This computer has not what it takes.
    Absent(String),
    /// A comparison was printed, and is worse than it may be.
    Below(String),
    /// A program could not be started: the code a shell would give.
    NotStarted(u8, String),
    /// An answer could not be written.
    Write(io::Error),
    /// The reader of stdout went away.
    Pipe,
}

impl Failure {
    /// A failure to do something to a file.
    pub fn file(verb: &str, path: &Path, error: impl fmt::Display) -> Self {
        Self::Failed(format!("failed to {verb} {}: {error}", path.display()))
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::Pipe => 0,
            Self::Failed(_) | Self::Write(_) => 1,
            Self::Usage(_) => 2,
            Self::Absent(_) => 3,
            Self::Below(_) => 4,
            Self::NotStarted(code, _) => *code,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message)
            | Self::Failed(message)
            | Self::Absent(message)
            | Self::Below(message)
            | Self::NotStarted(_, message) => f.write_str(message),
            Self::Write(error) => write!(f, "failed to write: {error}"),
            Self::Pipe => f.write_str("nobody reads the output"),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Pipe,
            _ => Self::Write(error),
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        io::Error::from(error).into()
    }
}

impl From<csv::Error> for Failure {
    fn from(error: csv::Error) -> Self {
        // Its own conversion to `io::Error` forgets the kind.
        match error.into_kind() {
            csv::ErrorKind::Io(error) => error.into(),
            kind => Self::Failed(format!("failed to write: {kind:?}")),
        }
    }
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        match &error {
            // The profile could have held it: not the user's slip.
            QueryError::Spec(SpecError::LineMissing { .. }) => Self::Failed(error.to_string()),
            QueryError::Spec(_) | QueryError::NoLevels => Self::Usage(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

impl From<CompareError> for Failure {
    fn from(error: CompareError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<MachineError> for Failure {
    fn from(error: MachineError) -> Self {
        match &error {
            MachineError::Unknown { .. } => Self::Usage(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

impl From<bf_machine::Error> for Failure {
    fn from(error: bf_machine::Error) -> Self {
        if error.is_absence() { Self::Absent(error.to_string()) } else { Self::Failed(error.to_string()) }
    }
}
