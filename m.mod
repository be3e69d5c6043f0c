!mod$ v1 sum:5210b321feea08e4
module m
type::t
real(8),pointer::s(:)
real(8),allocatable::w(:)
end type
contains
subroutine go(x,n)
type(t),intent(inout)::x
integer(4),intent(in)::n
end
end
