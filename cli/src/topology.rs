//! The caches of this computer, as Linux describes them in sysfs.

use bf_postproc::{machine::cpu_list, size};
use bf_profile::{CacheKind, CacheLevel};
use std::{fs, path::Path};

/// Caches of the first CPU; empty where the system does not say.
pub fn caches() -> Vec<CacheLevel> {
    below(Path::new("/sys/devices/system/cpu/cpu0/cache"))
}

/// Caches described by the `index*` folders of a sysfs cache folder, by level.
fn below(folder: &Path) -> Vec<CacheLevel> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let indices = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("index"));
    let mut levels: Vec<CacheLevel> = indices.filter_map(|entry| cache(&entry.path())).collect();
    levels.sort_by_key(|level| (level.level, level.kind != CacheKind::Data));
    levels
}

fn cache(folder: &Path) -> Option<CacheLevel> {
    let text = |name: &str| fs::read_to_string(folder.join(name)).ok().map(|text| text.trim().to_owned());
    let number = |name: &str| text(name).and_then(|text| text.parse().ok()).unwrap_or(0);
    Some(CacheLevel {
        level: text("level")?.parse().ok()?,
        kind: match text("type")?.as_str() {
            "Data" => CacheKind::Data,
            "Instruction" => CacheKind::Instruction,
            _ => CacheKind::Unified,
        },
        size: size::parse(&text("size")?)?,
        ways: number("ways_of_associativity"),
        line: number("coherency_line_size"),
        sets: number("number_of_sets"),
        shared_by: text("shared_cpu_list")
            .and_then(|list| cpu_list(&list))
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or(1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_folder_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let write = |index: &str, level: &str, kind: &str, size: &str, ways: &str, shared: &str| {
            let index = folder.path().join(index);
            fs::create_dir(&index).unwrap();
            for (name, text) in [
                ("level", level),
                ("type", kind),
                ("size", size),
                ("ways_of_associativity", ways),
                ("coherency_line_size", "64"),
                ("shared_cpu_list", shared),
            ] {
                fs::write(index.join(name), format!("{text}\n")).unwrap();
            }
        };
        write("index2", "2", "Unified", "2048K", "16", "0-1");
        write("index0", "1", "Data", "48K", "12", "0,4");
        write("index1", "1", "Instruction", "32K", "8", "0,4");
        fs::create_dir(folder.path().join("index3")).unwrap();
        let levels = below(folder.path());
        let seen: Vec<_> = levels.iter().map(|level| (level.level, level.kind, level.size, level.shared_by)).collect();
        assert_eq!(
            seen,
            [
                (1, CacheKind::Data, 48 << 10, 2),
                (1, CacheKind::Instruction, 32 << 10, 2),
                (2, CacheKind::Unified, 2 << 20, 2)
            ]
        );
        assert!(below(Path::new("/nowhere")).is_empty());
    }
}
