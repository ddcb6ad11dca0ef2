! The module of MPI for Fortran. Written from the tables in crates/mpi-abi/abi; do not edit.
module mpi
  implicit none
  include 'mpif.h'
  interface
    subroutine barewire_sizeof_integer1(x, size, ierror)
      integer(1), dimension(..), intent(in) :: x
      integer, intent(out) :: size, ierror
    end subroutine
    subroutine barewire_sizeof_integer2(x, size, ierror)
      integer(2), dimension(..), intent(in) :: x
      integer, intent(out) :: size, ierror
    end subroutine
    subroutine barewire_sizeof_integer4(x, size, ierror)
      integer(4), dimension(..), intent(in) :: x
      integer, intent(out) :: size, ierror
    end subroutine
    subroutine barewire_sizeof_integer8(x, size, ierror)
      integer(8), dimension(..), intent(in) :: x
      integer, intent(out) :: size, ierror
    end subroutine
    subroutine barewire_sizeof_integer16(x, size, ierror)
      integer(16), dimension(..), intent(in) :: x
      integer, intent(out) :: size, ierror
    end subroutine
    subroutine barewire_sizeof_real4(x, size, ierror)
      real(4), dimension(..), intent(in) :: x
      integer, intent(out) :: size, ierror
    end subroutine
    subroutine barewire_sizeof_real8(x, size, ierror)
      real(8), dimension(..), intent(in) :: x
      integer, intent(out) :: size, ierror
    end subroutine
    subroutine barewire_sizeof_real16(x, size, ierror)
      real(16), dimension(..), intent(in) :: x
      integer, intent(out) :: size, ierror
    end subroutine
    subroutine barewire_sizeof_complex4(x, size, ierror)
      complex(4), dimension(..), intent(in) :: x
      integer, intent(out) :: size, ierror
    end subroutine
    subroutine barewire_sizeof_complex8(x, size, ierror)
      complex(8), dimension(..), intent(in) :: x
      integer, intent(out) :: size, ierror
    end subroutine
    subroutine barewire_sizeof_complex16(x, size, ierror)
      complex(16), dimension(..), intent(in) :: x
      integer, intent(out) :: size, ierror
    end subroutine
    subroutine barewire_sizeof_logical1(x, size, ierror)
      logical(1), dimension(..), intent(in) :: x
      integer, intent(out) :: size, ierror
    end subroutine
    subroutine barewire_sizeof_logical2(x, size, ierror)
      logical(2), dimension(..), intent(in) :: x
      integer, intent(out) :: size, ierror
    end subroutine
    subroutine barewire_sizeof_logical4(x, size, ierror)
      logical(4), dimension(..), intent(in) :: x
      integer, intent(out) :: size, ierror
    end subroutine
    subroutine barewire_sizeof_logical8(x, size, ierror)
      logical(8), dimension(..), intent(in) :: x
      integer, intent(out) :: size, ierror
    end subroutine
    subroutine barewire_sizeof_character(x, size, ierror)
      character(*), dimension(..), intent(in) :: x
      integer, intent(out) :: size, ierror
    end subroutine
  end interface
  interface mpi_sizeof
    procedure barewire_sizeof_integer1
    procedure barewire_sizeof_integer2
    procedure barewire_sizeof_integer4
    procedure barewire_sizeof_integer8
    procedure barewire_sizeof_integer16
    procedure barewire_sizeof_real4
    procedure barewire_sizeof_real8
    procedure barewire_sizeof_real16
    procedure barewire_sizeof_complex4
    procedure barewire_sizeof_complex8
    procedure barewire_sizeof_complex16
    procedure barewire_sizeof_logical1
    procedure barewire_sizeof_logical2
    procedure barewire_sizeof_logical4
    procedure barewire_sizeof_logical8
    procedure barewire_sizeof_character
  end interface
  interface pmpi_sizeof
    procedure barewire_sizeof_integer1
    procedure barewire_sizeof_integer2
    procedure barewire_sizeof_integer4
    procedure barewire_sizeof_integer8
    procedure barewire_sizeof_integer16
    procedure barewire_sizeof_real4
    procedure barewire_sizeof_real8
    procedure barewire_sizeof_real16
    procedure barewire_sizeof_complex4
    procedure barewire_sizeof_complex8
    procedure barewire_sizeof_complex16
    procedure barewire_sizeof_logical1
    procedure barewire_sizeof_logical2
    procedure barewire_sizeof_logical4
    procedure barewire_sizeof_logical8
    procedure barewire_sizeof_character
  end interface
  private :: barewire_sizeof_integer1
  private :: barewire_sizeof_integer2
  private :: barewire_sizeof_integer4
  private :: barewire_sizeof_integer8
  private :: barewire_sizeof_integer16
  private :: barewire_sizeof_real4
  private :: barewire_sizeof_real8
  private :: barewire_sizeof_real16
  private :: barewire_sizeof_complex4
  private :: barewire_sizeof_complex8
  private :: barewire_sizeof_complex16
  private :: barewire_sizeof_logical1
  private :: barewire_sizeof_logical2
  private :: barewire_sizeof_logical4
  private :: barewire_sizeof_logical8
  private :: barewire_sizeof_character
end module mpi
