//! Why a measurement cannot be made here.

use nix::errno::Errno;
use std::fmt;

/// Why a measurement cannot be made here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The thread may not run on this CPU.
    Pin {
        /// The CPU.
        cpu: u32,
        /// What the system said.
        errno: Errno,
    },
    /// The system makes no more threads for this process.
    Threads,
    /// There is not enough memory.
    Memory {
        /// Bytes asked for.
        bytes: usize,
        /// What the system said.
        errno: Errno,
    },
    /// More CPUs are needed than this process may use.
    Cpus {
        /// For what.
        what: &'static str,
        /// How many.
        needed: usize,
        /// How many there are.
        available: usize,
    },
    /// No cache is known to put lines in.
    NoCaches,
    /// All memory belongs to one node, or to none that this process' CPUs can be told from.
    OneNode,
    /// Memory of a node cannot be asked for.
    Place {
        /// The node.
        node: u32,
        /// What the system said.
        errno: Errno,
    },
    /// The machine has no performance counters that can be used; why, and the mend.
    NoCounters(String),
    /// A file of recorded counts has a mistake, or not what is asked of it.
    Recording(String),
}

impl Error {
    /// Whether the machine lacks something that another has, or that its administrator can give.
    #[must_use]
    pub fn is_absence(&self) -> bool {
        !matches!(self, Self::Memory { .. } | Self::Recording(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pin { cpu, errno } => write!(f, "CPU {cpu} cannot be used: {}", errno.desc()),
            Self::Threads => f.write_str(
                "this process can have no more threads: `ulimit -u`, `ulimit -v` or a control group limits them",
            ),
            Self::Memory { bytes, errno } => {
                write!(f, "no {} MiB of memory to measure with: {}", bytes >> 20, errno.desc())
            }
            Self::Cpus { what, needed, available } => {
                write!(
                    f,
                    "{what} needs {needed} CPUs and has {available} to use; --cpus chooses among those that `taskset -pc $$` lists"
                )
            }
            Self::NoCaches => f.write_str("nothing says here what caches there are to put lines in"),
            Self::OneNode => f.write_str("all memory is of one node here: none is remote"),
            Self::Place { node, errno } => {
                write!(f, "memory of node {node} cannot be asked for: {}", errno.desc())?;
                match errno {
                    Errno::EPERM => f.write_str("; a container needs CAP_SYS_NICE for it"),
                    _ => Ok(()),
                }
            }
            Self::NoCounters(why) => f.write_str(why),
            Self::Recording(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}
