//! Files that no writer wrote: damaged ones, foreign ones, and ones made to hurt. Nothing may panic, nothing wrong may
//! pass for right.

use proptest::prelude::*;

use super::read;
use super::salvage::{salvage, salvage_file};
use super::tests::bytes;
use super::write::header;
use crate::error::{Damage, Error};
use crate::model::{Profile, StackData};
use crate::samples::{rich, sampled, tiny};
use crate::section::{Format, Header, Kind, MAX_RAW, SECTION_HEADER, SectionReader, SectionWriter};
use crate::trace;

/// Sections of a file as (header, contents), without the end mark.
fn sections(bytes: &[u8]) -> Vec<(Header, Vec<u8>)> {
    let mut reader = SectionReader::new(bytes, &Format::PROFILE).unwrap();
    let mut all = Vec::new();
    loop {
        let section = reader.next().unwrap();
        if section.header.kind == Kind::End as u16 {
            return all;
        }
        all.push((section.header, reader.unpack(&section).unwrap()));
    }
}

/// A file of these sections, with checksums that are right.
fn file(sections: &[(Header, Vec<u8>)], processes: u32) -> Vec<u8> {
    let mut writer = SectionWriter::new(Vec::new(), &Format::PROFILE, 1).unwrap();
    for (header, raw) in sections {
        writer.section(*header, raw).unwrap();
    }
    writer.finish(processes).unwrap()
}

/// Salvages; whatever comes of it must be sound.
fn salvaged(bytes: &[u8]) -> Option<(Profile, Vec<String>)> {
    let (profile, lost) = salvage(bytes).ok()?;
    profile.validate().unwrap();
    Some((profile, lost))
}

#[test]
fn every_changed_byte_is_noticed() {
    let original = bytes(&tiny());
    for offset in 0..original.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut changed = original.clone();
            changed[offset] ^= flip;
            read(&*changed).expect_err("a changed byte");
            if let Some((_, lost)) = salvaged(&changed) {
                assert!(!lost.is_empty(), "byte {offset} is lost unnoticed");
            }
        }
    }
}

#[test]
fn every_truncation_is_named() {
    let original = bytes(&tiny());
    for len in 1..original.len() {
        let error = read(&original[..len]).unwrap_err();
        assert!(error.is_truncation(), "{len} bytes: {error}");
        let (_, lost) = salvaged(&original[..len]).unwrap();
        assert!(!lost.is_empty(), "cut to {len} bytes unnoticed");
    }
}

#[test]
fn a_lost_group_leaves_the_others() {
    let original = bytes(&sampled());
    let place = original.len() - 40 - sections(&original).last().unwrap().0.stored as usize - 1;
    let mut changed = original;
    changed[place] ^= 1;
    let (profile, lost) = salvaged(&changed).unwrap();
    let groups: Vec<_> = profile.processes[0].sampled.iter().map(|data| (data.sets.len(), data.full.len())).collect();
    assert_eq!((groups, lost.len()), (vec![(0, 2), (2, 1)], 1), "{lost:?}");
}

#[test]
fn groups_that_do_not_belong_together_are_refused() {
    let parts = sections(&bytes(&sampled()));
    let without = |left_out: usize| {
        let kept: Vec<_> =
            parts.iter().enumerate().filter(|&(i, _)| i != left_out).map(|(_, part)| part.clone()).collect();
        read(&*file(&kept, 1))
    };
    assert_eq!(without(parts.len()).unwrap(), sampled());
    let mut swapped = parts.clone();
    swapped.swap(5, 6);
    let error = read(&*file(&swapped, 1)).unwrap_err().to_string();
    assert!(error.ends_with("its group does not follow those before"), "{error}");
    let mut limits = sampled();
    limits.processes[0].sampled[1].sets[0].max_ways = 99;
    let error = read(&*bytes(&limits)).unwrap_err().to_string();
    assert!(error.ends_with("the limits of a group are not those of its part"), "{error}");
}

#[test]
fn messages_say_what_is_wrong() {
    let original = bytes(&tiny());
    let head_end = 16 + 40 + sections(&original)[0].0.stored as usize;
    let text = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
    let changed = |offset: usize| {
        let mut changed = original.clone();
        changed[offset] ^= 1;
        text(&changed)
    };
    assert_eq!(text(b""), "not a bf profile: it is empty");
    assert_eq!(text(b"\x7fELF\x02\x01\x01\0\0\0"), r#"not a bf profile: it begins with "\x7fELF\x02\x01\x01\x00""#);
    let trace = trace::Writer::new(Vec::new(), &trace::Header::default()).unwrap().finish().unwrap();
    assert_eq!(text(&trace), "not a bf profile: it is a bf trace");
    assert_eq!(text(&original[..10]), "truncated in the file header: 6 bytes are missing");
    assert_eq!(text(&original[..16]), "truncated in section 0: the end mark is missing");
    assert_eq!(text(&original[..26]), "truncated in section 0: 30 bytes are missing");
    assert_eq!(text(&original[..head_end - 7]), "truncated in section 0 (head of process 0): 7 bytes are missing");
    assert_eq!(changed(9), "corrupt in the file header: its header is damaged");
    assert_eq!(changed(20), "corrupt in section 0: its header is damaged");
    let checksum = changed(head_end + 40);
    assert!(checksum.starts_with("corrupt in section 1 (64-byte lines of process 0): its checksum is "), "{checksum}");
    let surplus = [&*original, b"xyz"].concat();
    assert_eq!(text(&surplus), "corrupt in section 2 (end mark): bytes too many: 3");
}

#[test]
fn salvage_keeps_what_is_intact() {
    let original = bytes(&rich());
    let all = sections(&original);
    let mut offset = 16;
    for (lost_section, (header, _)) in all.iter().enumerate() {
        let mut changed = original.clone();
        // Once the contents, once the header of the section are hit.
        for hit in [offset + SECTION_HEADER, offset + 5] {
            changed[hit] ^= 0x10;
            let (profile, lost) = salvaged(&changed).unwrap();
            let lines = |p: &Profile| p.processes.iter().map(|p| p.lines.len()).sum::<usize>();
            let is_head = header.kind == Kind::Head as u16;
            assert_eq!(lines(&profile), lines(&rich()) - usize::from(header.kind == Kind::Lines as u16), "{lost:?}");
            assert!(lost[0].contains(&format!("section {lost_section}")), "{lost:?}");
            let names: Vec<_> = profile.processes.iter().map(|p| p.meta.executable.as_str()).collect();
            match (is_head, header.process) {
                (true, 0) => assert_eq!(names, ["process-0", "a.out"]),
                (true, _) => assert_eq!(names, ["process-1", "größe"]),
                _ => assert_eq!(names, ["größe", "a.out"]),
            }
        }
        offset += SECTION_HEADER + header.stored as usize;
    }
}

#[test]
fn salvage_notes_a_missing_end_once() {
    let original = bytes(&tiny());
    let lost = |bytes: &[u8]| salvaged(bytes).unwrap().1;
    let whole = original.len();
    assert_eq!(lost(&original[..10]), ["truncated in the file header: 6 bytes are missing"]);
    assert_eq!(lost(&original[..whole - SECTION_HEADER]), ["truncated in section 2: the end mark is missing"]);
    assert_eq!(lost(&original[..whole - 1]), ["truncated in section 2: 1 byte is missing"]);
    let mut damaged = original[..whole - SECTION_HEADER].to_vec();
    damaged[16 + SECTION_HEADER] ^= 1;
    let damaged = lost(&damaged);
    assert!(damaged[0].contains("its checksum is"), "{damaged:?}");
    assert_eq!(damaged[1], "truncated in section 2: the end mark is missing");
}

#[test]
fn salvage_reads_a_sound_file_whole() {
    assert_eq!(salvaged(&bytes(&rich())).unwrap(), (rich(), vec![]));
}

#[test]
fn salvage_refuses_what_it_cannot_judge() {
    assert!(matches!(salvage(b"BMP"), Err(Error::Foreign { .. })));
    let next = Format { major: 2, ..Format::PROFILE };
    let newer = SectionWriter::new(Vec::new(), &next, 1).unwrap().finish(0).unwrap();
    assert!(matches!(salvage(&newer), Err(Error::Newer { major: 2, .. })));
    // A hole larger than any memory.
    let huge = tempfile::NamedTempFile::new().unwrap();
    huge.as_file().set_len(1 << 43).unwrap();
    assert!(matches!(salvage_file(huge.path()), Err(Error::Foreign { .. })));
}

#[test]
fn wild_lengths_cost_nothing() {
    for (raw, stored) in [(u64::MAX, 10), (MAX_RAW + 1, 10), (100, u64::MAX), (0, 1), (1, 0)] {
        let wild = Header { raw, stored, ..header(Kind::Head, 0, 0) };
        let bytes = [&Format::PROFILE.header()[..], &wild.to_bytes(), &[0; 64]].concat();
        let error = read(&*bytes).unwrap_err();
        assert!(matches!(error, Error::Corrupt { damage: Damage::Length { .. }, .. }), "{error}");
        assert!(salvaged(&bytes).is_some());
    }
    // A vector that claims 2^60 strings.
    let mut all = sections(&bytes(&tiny()));
    all[0].1[..8].copy_from_slice(&(1_u64 << 60).to_le_bytes());
    let error = read(&*file(&all, 1)).unwrap_err();
    assert!(matches!(error, Error::Corrupt { damage: Damage::Encoding(_), .. }), "{error}");
}

#[test]
fn contents_must_be_as_long_as_claimed() {
    let (head, raw) = sections(&bytes(&tiny())).remove(0);
    let packed = zstd::bulk::compress(&raw, 1).unwrap();
    for claimed in [head.raw - 1, head.raw + 1] {
        let (stored, crc) = (packed.len() as u64, crc32fast::hash(&packed));
        let header = Header { raw: claimed, stored, crc, ..head };
        let bytes = [&Format::PROFILE.header()[..], &header.to_bytes(), &packed].concat();
        assert!(matches!(read(&*bytes), Err(Error::Corrupt { .. })));
    }
}

/// The message for a file of these sections, which counts `processes`.
fn refused(sections: &[(Header, Vec<u8>)], processes: u32) -> String {
    let bytes = file(sections, processes);
    salvaged(&bytes).unwrap();
    read(&*bytes).unwrap_err().to_string()
}

#[test]
fn sections_must_belong_together() {
    let all = sections(&bytes(&rich()));
    let counts = "the processes before it are not those that it counts";
    assert_eq!(refused(&all, 3), format!("corrupt in section {} (end mark): {counts}", all.len()));
    assert_eq!(refused(&all[..3], 2), format!("corrupt in section 3 (end mark): {counts}"));
    assert_eq!(refused(&all[1..], 2), format!("corrupt in section {} (end mark): {counts}", all.len() - 1));
    let twice = [all[0].clone(), all[0].clone()];
    assert_eq!(refused(&twice, 1), "corrupt in section 1 (head of process 0): the process has two heads");
    let swapped = [all[0].clone(), all[2].clone(), all[1].clone()];
    assert_eq!(refused(&swapped, 1), "corrupt in section 2 (32-byte lines of process 0): line sizes are not ascending");
    let again = [all[0].clone(), all[1].clone(), all[1].clone()];
    assert_eq!(
        refused(&again, 1),
        "corrupt in section 2 (32-byte lines of process 0): its stacks do not follow those before"
    );
    let shared: Vec<_> = all.iter().filter(|(header, _)| header.kind == Kind::Sharing as u16).cloned().collect();
    let again = [all[0].clone(), shared[0].clone(), shared[0].clone()];
    assert_eq!(
        refused(&again, 1),
        "corrupt in section 2 (sharing of 32-byte lines of process 0): its lines do not follow those before"
    );
    let swapped = [all[0].clone(), shared[1].clone(), shared[0].clone()];
    assert_eq!(
        refused(&swapped, 1),
        "corrupt in section 2 (sharing of 32-byte lines of process 0): line sizes are not ascending"
    );
    let table = all.iter().find(|(header, _)| header.kind == Kind::Places as u16).unwrap();
    let places = [all[0].clone(), table.clone(), table.clone()];
    assert_eq!(refused(&places, 1), "corrupt in section 2 (places of process 0): the process has two tables of places");
    let objects = all.iter().find(|(header, _)| header.kind == Kind::Objects as u16).unwrap();
    let alone = [all[0].clone(), objects.clone()];
    assert_eq!(refused(&alone, 1), "corrupt in section 1 (objects of process 0): it has no places");
    let paths = all.iter().find(|(header, _)| header.kind == Kind::Paths as u16).unwrap();
    let alone = [all[0].clone(), paths.clone()];
    assert_eq!(refused(&alone, 1), "corrupt in section 1 (call paths of process 0): it has no places");
    let mut renamed = all[..2].to_vec();
    renamed[1].0.part = 128;
    assert_eq!(
        refused(&renamed, 1),
        "corrupt in section 1 (128-byte lines of process 0): header and contents name two line sizes"
    );
}

#[test]
fn a_wrong_sum_is_refused() {
    let mut wrong = tiny();
    let StackData { histograms, .. } = &mut wrong.processes[0].lines[0].stacks[0];
    histograms.references[1] += 1;
    let error = read(&*bytes(&wrong)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "inconsistent in section 2: process 0: 64-byte lines: Slot(0), tag 0: 0 references are lost and 1 \
         neither cold nor at a distance"
    );
}

/// A section of coherence or of the stacks that it belongs to is gone: the rest must still be sound.
#[test]
fn coherence_goes_with_its_stacks() {
    let all = sections(&bytes(&rich()));
    let without = |kind: Kind| {
        let kept: Vec<_> = all.iter().filter(|(header, _)| header.kind != kind as u16).cloned().collect();
        let (profile, lost) = salvaged(&file(&kept, 2)).unwrap();
        let first = &profile.processes[0];
        (first.lines.len(), first.coherence.len(), lost.join("\n"))
    };
    assert_eq!(without(Kind::Coherence), (2, 0, String::new()));
    let (lines, coherence, lost) = without(Kind::Lines);
    assert_eq!((lines, coherence), (0, 0));
    assert_eq!(lost, "the coherence of 32-byte lines of process 0 has lost its stacks");
    // One stack that is left alone cannot have lost references to others.
    let mut alone = rich();
    let process = &mut alone.processes[0];
    process.coherence.clear();
    process.lines[0].stacks.truncate(2);
    let (profile, lost) = salvaged(&bytes(&alone)).unwrap();
    assert_eq!((profile.processes[0].lines[0].stacks.len(), lost.len()), (0, 1), "{lost:?}");
}

/// The section of the whole run's bytes is gone, or that of the functions' names.
#[test]
fn bytes_by_function_go_with_what_they_are_part_of() {
    let all = sections(&bytes(&rich()));
    for kind in [Kind::Patterns, Kind::Places] {
        let kept: Vec<_> = all.iter().filter(|(header, _)| header.kind != kind as u16).cloned().collect();
        let (profile, lost) = salvaged(&file(&kept, 2)).unwrap();
        profile.validate().unwrap();
        assert_eq!(profile.processes[0].patterns.by_function, []);
        let patterns = if kind == Kind::Places { "access patterns" } else { "bytes by function" };
        assert!(lost.iter().any(|line| line.starts_with(&format!("the {patterns} of process 0"))), "{lost:?}");
    }
}

/// Found by `wild_headers_never_panic`, as a salvage that did not come back: an end mark that counts 2^32 - 1 processes.
#[test]
fn a_wild_count_of_processes_is_one_remark() {
    let bytes = file(&[], u32::MAX);
    let (profile, lost) = salvaged(&bytes).unwrap();
    assert_eq!(profile, Profile::default());
    assert_eq!(lost, ["nothing is left of 4294967295 of 4294967295 processes"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Contents changed under right checksums: an error, or a profile that is sound.
    #[test]
    fn changed_contents_never_panic(
        victim: prop::sample::Index,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut all = sections(&bytes(&rich()));
        let victim = victim.index(all.len());
        let raw = &mut all[victim].1;
        for (at, value) in changes {
            let at = at.index(raw.len());
            raw[at] = value;
        }
        if let Some(cut) = cut {
            raw.truncate(cut.index(raw.len()));
        }
        let bytes = file(&all, 2);
        if let Ok(profile) = read(&*bytes) {
            profile.validate().unwrap();
        }
        salvaged(&bytes);
    }

    /// Any header under a right checksum, over any bytes.
    #[test]
    fn wild_headers_never_panic(
        kind in 0_u16..20, version: u16, process: u32, part: u32, raw in 0_u64..1000, stored in 0_u64..100,
        contents in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let crc = crc32fast::hash(&contents[..contents.len().min(stored as usize)]);
        let header = Header { kind, version, process, part, raw, stored, crc };
        let bytes = [&Format::PROFILE.header()[..], &header.to_bytes(), &contents].concat();
        prop_assert!(read(&*bytes).is_err());
        salvaged(&bytes);
    }
}
