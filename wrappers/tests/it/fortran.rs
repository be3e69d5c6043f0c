//! Fortran: in one step, in two, and in a library.

use crate::sandbox::{Sandbox, silent, text};

const CELLS: &str = "module cells\n  real(8), allocatable :: x(:)\ncontains\n  subroutine fill()\n    integer :: i\n    \
                     allocate(x(64))\n    do i = 1, 64\n      x(i) = i\n    end do\n  end subroutine\nend module\n";
const MAIN: &str = "program p\n  use cells\n  call fill()\n  print '(i0)', nint(x(42))\nend program\n";

#[test]
fn programs_and_libraries() {
    let dir = Sandbox::new(&[("cells.f90", CELLS), ("main.f90", MAIN)]);
    silent(&dir.tool("bf-flang", "-O2 -g cells.f90 main.f90 -o one"));
    silent(&dir.tool("bf-flang", "-O2 -bf-line-size=32,64 -c cells.f90"));
    silent(&dir.tool("bf-flang", "-c main.f90"));
    silent(&dir.tool("bf-flang", "main.o cells.o -o two"));
    silent(&dir.tool("bf-flang", "-fPIC -shared cells.f90 -o libcells.so"));
    silent(&dir.tool("bf-flang", "main.o -o three -L. -lcells -Wl,-rpath,$ORIGIN"));
    for name in ["one", "two", "three"] {
        assert!(dir.is_instrumented(name), "{name}");
        dir.runs(name);
    }
    assert_eq!(dir.profiles().len(), 3);

    silent(&dir.tool("bf-flang", "-bf-disable -O2 cells.f90 main.f90 -o plain"));
    assert!(!dir.is_instrumented("plain"));
    let mut other = dir.command(bf_tests::program("bf-flang"));
    let output = other.env("BF_FLANG", "/no/flang").arg("main.f90").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("bf-flang: error: BF_FLANG=/no/flang: no such program"), "{}", text(&output));
}
