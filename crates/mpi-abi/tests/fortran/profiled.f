C     A subroutine of the program's in front of the library's, which calls that by its other name.
      PROGRAM PROFILED
      INCLUDE 'mpif.h'
      INTEGER IERR, N, CALLS
      COMMON /SEEN/ CALLS
      CALLS = 0
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, N, IERR)
      CALL PMPI_COMM_SIZE(MPI_COMM_SELF, N, IERR)
      CALL MPI_FINALIZE(IERR)
      IF (CALLS .NE. 1 .OR. N .NE. 1) STOP 1
      PRINT '(A)', 'all is well'
      END

      SUBROUTINE MPI_COMM_SIZE(COMM, N, IERR)
      INTEGER COMM, N, IERR, CALLS
      COMMON /SEEN/ CALLS
      CALLS = CALLS + 1
      CALL PMPI_COMM_SIZE(COMM, N, IERR)
      END
