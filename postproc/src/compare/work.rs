//! What concerns computation: instruction mix, bytes for each operation, branches, vectors, strides.

use super::{
    Context, Outcome, SIDES,
    distance::{cosine, normalised, overlap},
    locality::NEGLIGIBLE,
    words::{both, bytes, number, percent},
};
use crate::{
    counters::Values,
    patterns::{self, StrideCounts},
};
use std::collections::BTreeSet;

/// A program whose floating-point operations are fewer than this part of its instructions has none to speak of.
const FEW_FLOPS: f64 = 0.001;

fn get(totals: &Values<'_>, name: &str) -> f64 {
    totals.get(name).copied().unwrap_or_default() as f64
}

/// The counters of both, or which side has none.
fn counted<'a, 'b>(context: &'a Context<'b>) -> Result<&'a [Values<'b>; 2], String> {
    let none: Vec<&str> =
        (0..2).filter(|&side| get(&context.counters[side], "instructions") == 0.0).map(|side| SIDES[side]).collect();
    if none.is_empty() {
        return Ok(&context.counters);
    }
    let verb = if none.len() == 1 { "holds" } else { "hold" };
    Err(format!("{} {verb} no counters: compile without -bf-no-counters", none.join(" and ")))
}

/// Which part of what each side executes is of which kind.
pub(super) fn instruction_mix(context: &Context<'_>) -> Outcome {
    let totals = counted(context)?;
    let members =
        |side: usize| totals[side].keys().filter_map(|name| name.strip_prefix("mix/")).collect::<BTreeSet<_>>();
    let fine = (0..2).all(|side| !members(side).is_empty());
    let (kinds, counts): (Vec<&str>, [Vec<f64>; 2]) = if fine {
        let kinds: Vec<&str> = members(0).union(&members(1)).copied().collect();
        let count = |side: usize| kinds.iter().map(|kind| get(&totals[side], &format!("mix/{kind}"))).collect();
        let counts = [count(0), count(1)];
        (kinds, counts)
    } else {
        let kinds = vec!["loads", "stores", "flops", "int_ops", "branches", "calls", "others"];
        (kinds, [0, 1].map(|side| coarse(&totals[side])))
    };
    let shares = [normalised(&counts[0]), normalised(&counts[1])];
    let score = overlap(&shares[0], &shares[1]);
    let mut order: Vec<usize> = (0..kinds.len()).collect();
    let apart = |kind: &usize| (shares[0][*kind] - shares[1][*kind]).abs();
    order.sort_by(|one, other| apart(other).total_cmp(&apart(one)));
    let most = order.iter().take(2).filter(|kind| apart(kind) >= 0.001);
    let most: Vec<String> = most
        .map(|&kind| {
            format!(
                "{} {}",
                kinds[kind].replace("int_ops", "integer operations"),
                both(|side| percent(shares[side][kind]))
            )
        })
        .collect();
    let most = if most.is_empty() { String::new() } else { format!("; furthest apart: {}", most.join("; ")) };
    let cosine = cosine(&counts[0], &counts[1]);
    let what = if fine { "opcodes and types" } else { "kinds of operation" };
    Ok((score, format!("the mixes of {what} overlap by {} (cosine {cosine:.3}){most}", percent(score))))
}

/// Operations by kind, each lane of a vector by itself; others are instructions that are none of them.
fn coarse(totals: &Values<'_>) -> Vec<f64> {
    let mut counts: Vec<f64> =
        ["loads", "stores", "flops", "int_ops", "branches", "calls"].iter().map(|name| get(totals, name)).collect();
    counts.push((get(totals, "instructions") - counts.iter().sum::<f64>()).max(0.0));
    counts
}

/// How alike the bytes moved for each operation are: by the program, and to and from every cache.
pub(super) fn bytes_per_flop(context: &Context<'_>) -> Outcome {
    let totals = counted(context)?;
    let flops = [0, 1].map(|side| get(&totals[side], "flops"));
    let few = [0, 1].map(|side| flops[side] < FEW_FLOPS * get(&totals[side], "instructions"));
    if few == [true, true] {
        return Err("neither does floating-point arithmetic to speak of".to_owned());
    }
    if let Some(side) = (0..2).find(|&side| few[side]) {
        return Ok((0.0, format!("{} does no floating-point arithmetic to speak of", SIDES[side])));
    }
    let program =
        [0, 1].map(|side| (get(&totals[side], "bytes_loaded") + get(&totals[side], "bytes_stored")) / flops[side]);
    let quotient = |[a, b]: [f64; 2]| if a.max(b) > 0.0 { a.min(b) / a.max(b) } else { 1.0 };
    // References and flops of a cache: lines brought in after the first references.
    let brought = |side: usize, size: usize| {
        let curve = &context.curves[side];
        (curve.ratio(size) + NEGLIGIBLE) * curve.references as f64 * f64::from(context.line) / flops[side]
    };
    let caches: Vec<[f64; 2]> = context.pairs.iter().map(|pair| [brought(0, pair.a), brought(1, pair.b)]).collect();
    let mean = caches.iter().map(|&both| quotient(both)).sum::<f64>() / caches.len() as f64;
    let middle = context.pairs.len() / 2;
    let why = format!(
        "bytes for each flop that the program moves: {}; that caches at matched capacities bring in: the smaller is on \
         average {} of the larger, with {} for A and {} for B: {}",
        both(|side| number(program[side])),
        percent(mean),
        bytes(context.bytes(context.pairs[middle].a)),
        bytes(context.bytes(context.pairs[middle].b)),
        both(|side| number(caches[middle][side])),
    );
    Ok((f64::midpoint(quotient(program), mean), why))
}

/// Which part of the branches is of which kind.
pub(super) fn branches(context: &Context<'_>) -> Outcome {
    const KINDS: [(&str, &str); 6] = [
        ("branches_taken", "conditional and taken"),
        ("branches_not_taken", "conditional and not taken"),
        ("branches_unconditional", "unconditional"),
        ("branches_switch", "switches"),
        ("branches_indirect", "indirect"),
        ("returns", "returns"),
    ];
    let totals = counted(context)?;
    let counts = [0, 1].map(|side| KINDS.map(|(name, _)| get(&totals[side], name)));
    let shares = [normalised(&counts[0]), normalised(&counts[1])];
    if let Some(side) = (0..2).find(|&side| shares[side].is_empty()) {
        return Err(format!("{} has no branches", SIDES[side]));
    }
    let score = overlap(&shares[0], &shares[1]);
    let apart = |kind: &usize| (shares[0][*kind] - shares[1][*kind]).abs();
    let most = (0..KINDS.len()).max_by(|one, other| apart(one).total_cmp(&apart(other))).unwrap_or(0);
    let each = |side: usize| number(get(&totals[side], "instructions") / get(&totals[side], "branches").max(1.0));
    let why = format!(
        "instructions for each branch: {}; of the branches {}: {}",
        both(each),
        KINDS[most].1,
        both(|side| percent(shares[side][most]))
    );
    Ok((score, why))
}

/// How much arithmetic is done in vectors, and how wide they are.
pub(super) fn vectorisation(context: &Context<'_>) -> Outcome {
    let totals = counted(context)?;
    let known = [0, 1].map(|side| totals[side].contains_key("vector_ops"));
    if known != [true, true] {
        let named: Vec<_> = (0..2).filter(|&side| !known[side]).map(|side| SIDES[side]).collect();
        return Err(format!(
            "no vectors were counted in {}: compile both with -bf-vectors; if that was done, there are none",
            named.join(" and ")
        ));
    }
    let part = |side: usize| {
        let ops = get(&totals[side], "flops") + get(&totals[side], "int_ops");
        (get(&totals[side], "vector_elements") / ops.max(1.0)).min(1.0)
    };
    let width = |side: usize| get(&totals[side], "vector_bits") / get(&totals[side], "vector_ops").max(1.0);
    let wide = width(0).min(width(1)) / width(0).max(width(1)).max(1.0);
    let score = (1.0 - (part(0) - part(1)).abs()) * wide;
    let why = format!(
        "part of the arithmetic that is done in vectors: {}; their mean width in bits: {}",
        both(|side| percent(part(side))),
        both(|side| number(width(side)))
    );
    Ok((score, why))
}

/// In which steps loads and stores go through memory.
pub(super) fn strides(context: &Context<'_>) -> Outcome {
    let counts = context.profiles.map(|profile| patterns::total(patterns::strides(profile, context.tags).values()));
    let unknown: Vec<_> = (0..2).filter(|&side| counts[side].accesses == 0).map(|side| SIDES[side]).collect();
    if !unknown.is_empty() {
        let named = unknown.join(" and ");
        return Err(format!("no strides in {named}: compile with -bf-strides, or run with BF_PATTERNS=strides"));
    }
    // The first access of an instruction has none.
    let shares = [0, 1].map(|side: usize| {
        let StrideCounts { zero, forward, other, backward, .. } = &counts[side];
        let words = (1..=64).map(|words: u8| forward.get(&words).copied().unwrap_or_default());
        let all: Vec<f64> =
            [*zero].into_iter().chain(words).chain([*other, *backward]).map(|count| count as f64).collect();
        normalised(&all)
    });
    let apart = |stride: &usize| {
        let share = |side: usize| shares[side].get(*stride).copied().unwrap_or_default();
        (share(0) - share(1)).abs()
    };
    let most = (0..=66).max_by(|one, other| apart(one).total_cmp(&apart(other))).unwrap_or(0);
    let named = match most {
        0 => "the same address".to_owned(),
        1 => "the next word".to_owned(),
        65 => "other ways forward".to_owned(),
        66 => "backward".to_owned(),
        words => format!("{words} words on"),
    };
    let score = overlap(&shares[0], &shares[1]);
    let each = both(|side| percent(shares[side].get(most).copied().unwrap_or_default()));
    Ok((
        score,
        format!("the strides of loads and stores overlap by {}; furthest apart: {named}, {each}", percent(score)),
    ))
}
