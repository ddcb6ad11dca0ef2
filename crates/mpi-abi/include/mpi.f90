! The module of MPI for Fortran.
module mpi
  implicit none
  include 'mpif.h'
end module mpi
