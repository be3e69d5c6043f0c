//! Large arrays that never stand on the stack: engines are made on the small stacks of other people's threads. What is new may
//! be zero pages of the system until it is used.

/// So many copies, made where they stay.
pub(crate) fn array<T: Clone, const N: usize>(value: T) -> Box<[T; N]> {
    let all = vec![value; N].into_boxed_slice();
    all.try_into().unwrap_or_else(|_| unreachable!("it has that length"))
}

/// Bytes of a page of the system.
pub(crate) const PAGE: usize = 4096;

/// Stores what is first on a page before anybody loads from there: the page is made at once then, and not one of zeros first that
/// all other processors have to forget.
#[cold]
pub(crate) fn begin<T>(first: &mut T, value: T) {
    *std::hint::black_box(first) = value;
}

/// So many copies, on pages that are made at once.
#[cold]
pub(crate) fn begun<T: Copy>(value: T, len: usize) -> Box<[T]> {
    let mut all = vec![value; len].into_boxed_slice();
    all.iter_mut().step_by((PAGE / size_of::<T>()).max(1)).for_each(|first| begin(first, value));
    all
}
