program hello
  use mpi
  implicit none
  integer :: ierr, rank, nranks, total, next, last, got, request(2), statuses(MPI_STATUS_SIZE, 2), length, i
  double precision :: values(4)
  character(len=MPI_MAX_PROCESSOR_NAME) :: name
  integer(kind=MPI_ADDRESS_KIND) :: tag_ub
  logical :: flag
  integer :: op
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, nranks, ierr)
  total = rank
  call MPI_Allreduce(MPI_IN_PLACE, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  next = mod(rank + 1, nranks)
  last = mod(rank + nranks - 1, nranks)
  call MPI_Irecv(got, 1, MPI_INTEGER, last, 5, MPI_COMM_WORLD, request(1), ierr)
  call MPI_Isend(rank, 1, MPI_INTEGER, next, 5, MPI_COMM_WORLD, request(2), ierr)
  call MPI_Waitall(2, request, statuses, ierr)
  if (got /= last .or. statuses(MPI_SOURCE, 1) /= last .or. statuses(MPI_TAG, 1) /= 5) stop 2
  if (any(request /= MPI_REQUEST_NULL)) stop 3
  values = rank
  call MPI_Bcast(values, 4, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, ierr)
  if (any(values /= 0)) stop 4
  call MPI_Get_processor_name(name, length, ierr)
  if (len_trim(name) /= length) stop 5
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, tag_ub, flag, ierr)
  if (.not. flag .or. tag_ub < 32767) stop 6
  call MPI_Op_create(smaller, .true., op, ierr)
  i = rank + 3
  call MPI_Allreduce(MPI_IN_PLACE, i, 1, MPI_INTEGER, op, MPI_COMM_WORLD, ierr)
  if (i /= 3) stop 7
  call MPI_Op_free(op, ierr)
  call MPI_Recv(got, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  if (MPI_Wtime() < 0) stop 8
  print '(a,i0)', 'Fortran: sum ', total
  call MPI_Finalize(ierr)
contains
  subroutine smaller(a, b, n, datatype)
    integer :: n, datatype, a(n), b(n)
    if (datatype /= MPI_INTEGER) stop 9
    b = min(a, b)
  end subroutine
end program
