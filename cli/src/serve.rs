//! `bf serve`: reports as live pages, for the browser of this computer.
//!
//! The server reads the profiles that the command line names and nothing else: no path of a request is ever one of the
//! file system. Every address begins with a token that only who started the server knows.

mod http;
mod list;
mod request;

use crate::{
    args::Hierarchy,
    failure::Failure,
    input::{self, Loaded},
    page::{self, Assets, Watch},
};
use clap::Args;
use request::{Reply, Target, Wanted};
use std::{
    fmt::Write as _,
    fs::{self, File},
    io::{self, Read as _, Write as _},
    net::{IpAddr, TcpListener},
    path::PathBuf,
    process::{Command, Stdio},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::{Duration, UNIX_EPOCH},
};

/// Connections at a time.
const MOST_CONNECTIONS: usize = 64;
/// How long answers under way may take once the server is told to end.
const GRACE: Duration = Duration::from_secs(2);

/// `bf serve`
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// Profiles; without any: the newest *.bfp here
    pub profiles: Vec<PathBuf>,
    /// Use the intact parts of damaged profiles
    #[arg(long)]
    pub salvage: bool,
    #[command(flatten)]
    pub hierarchy: Hierarchy,
    /// Port; 0: any that is free
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Address to listen at. With any but 127.0.0.1 or ::1, others on the network who learn the address with its token see the
    /// profiles and the source text around their misses, and everything travels unencrypted
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub bind: IpAddr,
    /// Open the page in the browser
    #[arg(long)]
    pub open: bool,
}

/// What there is to serve.
struct Site {
    assets: Assets,
    profiles: Vec<PathBuf>,
    salvage: bool,
    hierarchy: Hierarchy,
    token: String,
}

/// Serves until SIGINT or SIGTERM, which end it with success.
pub fn command(arguments: &ServeArguments) -> Result<(), Failure> {
    let ServeArguments { port, bind, salvage, .. } = *arguments;
    let profiles =
        if arguments.profiles.is_empty() { vec![input::newest()?] } else { input::expand(&arguments.profiles)? };
    some_can_be_read(&profiles, salvage)?;
    let site =
        Site { assets: Assets::find()?, profiles, salvage, hierarchy: arguments.hierarchy.clone(), token: token()? };
    let failed = |error: io::Error| Failure::Failed(format!("failed to listen at {bind} port {port}: {error}"));
    let listener = TcpListener::bind((bind, port)).map_err(failed)?;
    let address = format!("http://{}/{}/", listener.local_addr().map_err(failed)?, site.token);
    let (stop, stopped) = mpsc::channel();
    // Whoever is told twice to end is ending already.
    ctrlc::set_handler(move || stop.send(()).unwrap_or_default())
        .map_err(|error| Failure::Failed(format!("failed to wait for signals: {error}")))?;
    writeln!(io::stdout(), "{address}\nCtrl-C ends it.")?;
    if arguments.open {
        open(&address);
    }
    let open_now = Arc::new(Connections::default());
    let counted = Arc::clone(&open_now);
    thread::spawn(move || accept(&listener, &Arc::new(site), &counted));
    // The other end lives as long as the process.
    let _ = stopped.recv();
    open_now.wait();
    Ok(())
}

/// How many connections are open.
#[derive(Default)]
struct Connections {
    count: Mutex<usize>,
    fewer: Condvar,
}

impl Connections {
    fn count(&self) -> MutexGuard<'_, usize> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits a little for the last one to end.
    fn wait(&self) {
        let _ = self.fewer.wait_timeout_while(self.count(), GRACE, |count| *count > 0);
    }
}

/// The reason if there would be nothing but reasons on the page.
fn some_can_be_read(profiles: &[PathBuf], salvage: bool) -> Result<(), Failure> {
    let reasons: Vec<Failure> = profiles.iter().map_while(|path| input::read(path, salvage).err()).collect();
    match reasons.as_slice() {
        [only] if profiles.len() == 1 => Err(Failure::Failed(only.to_string())),
        [first, ..] if reasons.len() == profiles.len() => {
            Err(Failure::Failed(format!("none of the profiles could be read; the first: {first}")))
        }
        _ => Ok(()),
    }
}

/// Answers every connection in a thread of its own: who takes his time holds up no other.
fn accept(listener: &TcpListener, site: &Arc<Site>, connections: &Arc<Connections>) {
    for stream in listener.incoming() {
        // A connection that is gone before it was accepted, or one too many, is nobody's loss but its own.
        let Ok(stream) = stream else { continue };
        if *connections.count() >= MOST_CONNECTIONS {
            continue;
        }
        *connections.count() += 1;
        let (site, connections) = (Arc::clone(site), Arc::clone(connections));
        thread::spawn(move || {
            // Whoever asked may have gone away.
            let _ = http::serve(stream, |request| reply(&site, request));
            *connections.count() -= 1;
            connections.fewer.notify_all();
        });
    }
}

fn reply(site: &Site, request: &http::Request) -> Reply {
    let Target { wanted, stamp } = match request::target(request, &site.token, site.profiles.len()) {
        Ok(target) => target,
        Err(refusal) => return refusal,
    };
    match wanted {
        Wanted::Start if site.profiles.len() == 1 => Reply::redirect(&format!("/{}/0", site.token)),
        Wanted::Start => Reply::html(list::page(site)),
        Wanted::Profiles(numbers) if stamp => Reply::text(200, &site.stamp(&numbers)),
        Wanted::Profiles(numbers) => match site.page(&numbers) {
            Ok(page) => Reply::html(page),
            Err(failure) => Reply::text(422, &format!("{failure}\n")),
        },
    }
}

impl Site {
    fn load(&self, number: usize) -> Result<Loaded, Failure> {
        let paths = vec![self.profiles[number].clone()];
        Ok(Loaded { profile: input::merged(&paths, self.salvage)?, paths })
    }

    fn page(&self, numbers: &[usize]) -> Result<String, Failure> {
        // Taken before the files are read: a change in between shows as one.
        let watch = Watch { address: format!("stamp?{}", request::query(numbers)), stamp: self.stamp(numbers) };
        let loaded = numbers.iter().map(|&number| self.load(number)).collect::<Result<Vec<_>, _>>()?;
        page::page(&self.assets, &loaded, &self.hierarchy, Some(&watch))
    }

    /// What changes when one of the files does.
    fn stamp(&self, numbers: &[usize]) -> String {
        let mut stamp = String::new();
        for &number in numbers {
            let data = fs::metadata(&self.profiles[number]).ok();
            let written = data.as_ref().and_then(|data| data.modified().ok()?.duration_since(UNIX_EPOCH).ok());
            let nanoseconds = written.map_or(0, |written| written.as_nanos());
            let _ = write!(stamp, "{number}:{nanoseconds}:{};", data.map_or(0, |data| data.len()));
        }
        stamp
    }
}

/// 128 random bits, in hexadecimal.
fn token() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    let read = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes));
    read.map_err(|error| Failure::Failed(format!("failed to read /dev/urandom: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Asks the desktop to show the page; that there is none is no failure.
fn open(address: &str) {
    let mut command = Command::new("xdg-open");
    command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if command.spawn().is_err() {
        crate::output::remark("there is no xdg-open to open a browser with; open the address by hand");
    }
}
