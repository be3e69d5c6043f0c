//! Large arrays that never stand on the stack: engines are made on the small stacks of other people's threads.

/// So many copies, made where they stay.
pub(crate) fn array<T: Clone, const N: usize>(value: T) -> Box<[T; N]> {
    let all = vec![value; N].into_boxed_slice();
    all.try_into().unwrap_or_else(|_| unreachable!("it has that length"))
}
