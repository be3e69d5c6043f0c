//! Which hierarchy `--machine` means.

use crate::{
    args::MachinesArguments,
    failure::Failure,
    input,
    output::{print, remark},
    topology,
};
use bf_postproc::{
    Cache, MachineError,
    machine::{self, FALLBACK, PRESETS, Presets},
    size,
};
use bf_profile::{Machine, Profile};
use serde::Serialize;
use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

/// A hierarchy and where it came from.
#[derive(Debug)]
pub struct Hierarchy {
    /// Nearest level first.
    pub caches: Vec<Cache>,
    /// In words.
    pub label: String,
}

/// The hierarchy that `selector` names, for a question to `profile`.
pub fn resolve(selector: &str, profile: &Profile) -> Result<Hierarchy, Failure> {
    match selector {
        "run" => recorded_or_usual(profile),
        "this" => {
            let caches = machine::from_topology(&topology::caches());
            if caches.is_empty() {
                return Err(Failure::Failed(
                    "this computer does not say what caches it has; name a machine instead".into(),
                ));
            }
            Ok(Hierarchy { caches, label: "this computer".to_owned() })
        }
        file if [".json", ".toml"].iter().any(|end| file.ends_with(end)) || file.contains('/') => from_file(file),
        name => {
            let presets = presets()?;
            let preset = presets.get(name).ok_or_else(|| MachineError::Unknown {
                name: name.to_owned(),
                available: presets.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
            })?;
            Ok(Hierarchy { caches: caches_of(name, preset)?, label: format!("{name}: {}", preset.cpu) })
        }
    }
}

/// What is known of the machines that the processes ran on, where that has caches.
fn machines(profile: &Profile) -> impl Iterator<Item = &Machine> {
    profile.processes.iter().map(|process| &process.machine).filter(|machine| !machine.caches.is_empty())
}

/// The machine that the profile was recorded on, if it says; of several the first.
pub fn recorded(profile: &Profile) -> Option<Hierarchy> {
    let first = machines(profile).next()?;
    let caches = machine::from_topology(&first.caches);
    let cpu = if first.cpu.is_empty() { "unnamed processor" } else { &first.cpu };
    (!caches.is_empty()).then(|| Hierarchy { caches, label: format!("the machine it ran on: {cpu}") })
}

/// The same, or a named one in its place.
fn recorded_or_usual(profile: &Profile) -> Result<Hierarchy, Failure> {
    if let Some(found) = recorded(profile) {
        let mut all = machines(profile).map(|machine| &machine.caches);
        let first = all.next();
        if all.any(|other| Some(other) != first) {
            remark("the processes ran on machines with different caches; those of the first stand for all");
        }
        return Ok(found);
    }
    remark(&format!(
        "the profile does not say what caches it ran on; taking those of {FALLBACK}, choose with --machine"
    ));
    let presets = machine::presets(PRESETS, "presets.toml")?;
    let preset = &presets[FALLBACK];
    let mut caches = caches_of(FALLBACK, preset)?;
    // A stand-in takes whatever line size the profile has.
    caches.iter_mut().for_each(|cache| cache.line = None);
    Ok(Hierarchy { caches, label: format!("{FALLBACK}: {} (the profile names none)", preset.cpu) })
}

fn caches_of(name: &str, preset: &machine::Preset) -> Result<Vec<Cache>, Failure> {
    preset.caches().map_err(|message| Failure::Failed(format!("{name}: {message}")))
}

fn from_file(name: &str) -> Result<Hierarchy, Failure> {
    let text = input::text(Path::new(name))?;
    let caches =
        if name.ends_with(".toml") { machine::from_toml(&text, name)? } else { machine::from_json(&text, name)? };
    Ok(Hierarchy { caches, label: name.to_owned() })
}

/// The presets that come with bf, and the user's own, which replace those of the same name.
fn presets() -> Result<Presets, Failure> {
    let mut presets = machine::presets(PRESETS, "presets.toml")?;
    if let Some(path) = user_presets() {
        match fs::read_to_string(&path) {
            Ok(text) => presets.extend(machine::presets(&text, &path.display().to_string())?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Failure::file("read", &path, error)),
        }
    }
    Ok(presets)
}

/// `$XDG_CONFIG_HOME/bf/presets.toml`, or below `~/.config`.
fn user_presets() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")))?;
    Some(folder.join("bf/presets.toml"))
}

/// Every preset, by name, under the label that [`resolve`] would give it.
pub fn all() -> Result<Vec<Hierarchy>, Failure> {
    let hierarchy = |(name, preset): (&String, &machine::Preset)| {
        Ok(Hierarchy { caches: caches_of(name, preset)?, label: format!("{name}: {}", preset.cpu) })
    };
    presets()?.iter().map(hierarchy).collect()
}

/// A machine in the list.
#[derive(Debug, Serialize)]
struct Listed {
    name: String,
    cpu: String,
    caches: Vec<String>,
    source: String,
}

/// All machines.
#[derive(Debug, Serialize)]
struct List {
    schema: &'static str,
    machines: Vec<Listed>,
}

/// `bf machines`
pub fn command(arguments: &MachinesArguments) -> Result<(), Failure> {
    let mut machines = Vec::new();
    for (name, preset) in presets()? {
        let caches = caches_of(&name, &preset)?.iter().map(specification).collect();
        machines.push(Listed { name, cpu: preset.cpu, caches, source: preset.source });
    }
    let text = |list: &List| {
        let mut text = String::new();
        for machine in &list.machines {
            text += &format!("{:20} {}\n{:20} {}\n", machine.name, machine.cpu, "", machine.caches.join(" "));
        }
        text
    };
    let rows = |list: &List| list.machines.iter().filter_map(|machine| serde_json::to_value(machine).ok()).collect();
    print(arguments.output.format, &[List { schema: "bf.machines/1", machines }], false, text, rows)
}

/// A cache as `--cache` takes it.
pub fn specification(cache: &Cache) -> String {
    let mut text = format!("{}={}:{}", cache.name, size::format(cache.size), cache.ways);
    if let Some(line) = cache.line {
        text += &format!(":{line}");
    }
    text += &format!(":{}", cache.scope);
    for (said, word) in [(cache.hashed, ":hashed"), (cache.exclusive, ":exclusive")] {
        if said {
            text += word;
        }
    }
    text
}
