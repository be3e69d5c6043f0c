//! Descriptors of Fortran's objects, as `ISO_Fortran_binding.h` has them (Fortran 2018, 18.5.3).

/// What comes before the dimensions, of which there are `rank`.
#[repr(C)]
pub struct Descriptor {
    base: *const u8,
    element_bytes: usize,
    version: i32,
    rank: u8,
    kind: i8,
    attribute: u8,
    extra: u8,
}

#[repr(C)]
struct Dimension {
    lower_bound: isize,
    extent: isize,
    stride_bytes: isize,
}

/// How many bytes the object has that it describes.
///
/// # Safety
///
/// It is a descriptor, its dimensions behind it.
pub unsafe fn bytes(descriptor: *const Descriptor) -> u64 {
    // SAFETY:
    // - the caller's obligation
    let (element, rank) = unsafe { ((*descriptor).element_bytes, (*descriptor).rank) };
    // SAFETY:
    // - behind a descriptor are its dimensions
    let extents = (0..rank).map(|at| unsafe { (*descriptor.add(1).cast::<Dimension>().add(at.into())).extent });
    extents.fold(element as u64, |bytes, extent| bytes.saturating_mul(extent.max(0) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    #[test]
    fn an_object_has_its_elements() {
        let described = |extents: &[isize]| {
            #[repr(C)]
            struct Whole(Descriptor, [Dimension; 3]);
            let (base, rank) = (ptr::null(), extents.len() as u8);
            let head = Descriptor { base, element_bytes: 8, version: 2018, rank, kind: 0, attribute: 0, extra: 0 };
            let dimension =
                |at| Dimension { lower_bound: 1, extent: extents.get(at).copied().unwrap_or(9), stride_bytes: 0 };
            let whole = Whole(head, std::array::from_fn(dimension));
            // SAFETY:
            // - a descriptor and its dimensions
            unsafe { bytes(ptr::from_ref(&whole).cast()) }
        };
        assert_eq!([&[][..], &[5], &[5, 3, 2], &[5, 0], &[-1]].map(described), [8, 40, 240, 0, 0]);
    }
}
