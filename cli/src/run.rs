//! `bf run`: becomes the program, so that its exit code, its signals and its terminal are its own.

use crate::{
    args::RunArguments,
    failure::Failure,
    output::{remark, spare, spare_profile},
};
use memchr::memmem;
use nix::{
    errno::Errno,
    sys::personality::{self, Persona},
    unistd::{AccessFlags, access},
};
use std::{
    env, fs, io,
    os::unix::process::CommandExt,
    path::{self, Path, PathBuf},
    process::Command,
};

/// Replaces this process by the program; returns only if that fails.
pub fn command(arguments: &RunArguments) -> Result<(), Failure> {
    let [program, rest @ ..] = arguments.program.as_slice() else {
        return Err(Failure::Usage("no program to run".to_owned()));
    };
    if arguments.no_aslr {
        personality::get()
            .and_then(|now| personality::set(now | Persona::ADDR_NO_RANDOMIZE))
            .map_err(|error| Failure::Failed(format!("failed to switch address randomisation off: {error}")))?;
    }
    let mut command = Command::new(program);
    command.args(rest);
    if let Some(trace) = &arguments.trace {
        spare_profile(&named(trace, Path::new(program)))?;
        if arguments.output.as_ref().and_then(|profile| path::absolute(profile).ok()) == path::absolute(trace).ok() {
            let both = format!("the profile and the trace would both be {}; name two files", trace.display());
            return Err(Failure::Usage(both));
        }
    }
    for (name, value, what) in [("BF_PROFILE", &arguments.output, "profile"), ("BF_TRACE", &arguments.trace, "trace")] {
        if let Some(value) = value {
            spare(&named(value, Path::new(program)), Path::new(program), "the program itself")?;
            command.env(name, value);
            if let Err(error) = can_be_written(value) {
                remark(&format!("no {what} can be written to {}: {error}", value.display()));
            }
        }
    }
    if let Some(rate) = &arguments.sample {
        command.env("BF_SAMPLE", &rate.text);
    }
    let program = Path::new(program);
    if is_foreign(program) {
        remark(&format!(
            "{} was not built with bf-clang: it leaves no profile, unless something that it loads or starts was",
            program.display()
        ));
    } else if arguments.output.is_none() {
        remark_on_default();
    }
    let error = command.exec();
    // As shells say it: 127 for a program that is not there, 126 for one that cannot be run.
    let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    Err(Failure::NotStarted(code, format!("failed to run {}: {error}", program.display())))
}

/// The file that a pattern names, as far as the program says.
fn named(pattern: &Path, program: &Path) -> PathBuf {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    pattern.to_string_lossy().replace("%e", &name).into()
}

/// Says so if no profile can be written where the runtime writes it without -o.
fn remark_on_default() {
    let pattern = env::var_os("BF_PROFILE").filter(|pattern| !pattern.is_empty());
    if let Err(error) = can_be_written(pattern.as_deref().map_or(Path::new("%e.%p.bfp"), Path::new)) {
        let place = pattern.as_ref().map_or("the working directory".into(), |pattern| pattern.to_string_lossy());
        remark(&format!("no profile can be written to {place}: {error}"));
    }
}

/// Whether a pipe or device can be written to, or a file be made in the folder of this one, as far as the pattern says
/// which that is: the runtime is silent about it.
fn can_be_written(path: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(data) if data.is_dir() => return Err(Errno::EISDIR.into()),
        Ok(data) if !data.is_file() => return Ok(access(path, AccessFlags::W_OK)?),
        _ if path.as_os_str().as_encoded_bytes().ends_with(b"/") => return Err(Errno::EISDIR.into()),
        _ => {}
    }
    let folder = path.parent().unwrap_or(path).join(".");
    match folder.as_os_str().as_encoded_bytes().contains(&b'%') {
        true => Ok(()),
        false => Ok(access(&folder, AccessFlags::W_OK | AccessFlags::X_OK)?),
    }
}

/// Whether a file named by its path is machine code without the runtime. What is searched for may be a launcher as well.
fn is_foreign(program: &Path) -> bool {
    let holds = |code: &[u8], what: &str| memmem::find(code, what.as_bytes()).is_some();
    program.components().count() > 1
        && fs::read(program).is_ok_and(|code| {
            code.starts_with(b"\x7fELF") && !holds(&code, "libbf_rt.so") && !holds(&code, "BF_PROFILE")
        })
}
