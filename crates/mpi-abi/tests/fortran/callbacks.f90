! What the program is called back with, values that C and Fortran share, the sizes of types, and names of long ago.
module own
  use mpi
  use, intrinsic :: iso_c_binding
  implicit none
  integer :: wrong = 0, deleted = 0, handled = 0, given_up = 0, forgotten = 0
  ! C's own functions on MPI_COMM_SELF, which is 258 there too.
  interface
    integer(c_int) function c_set_attr(comm, keyval, value) bind(C, name='MPI_Comm_set_attr')
      import
      integer(c_intptr_t), value :: comm, value
      integer(c_int), value :: keyval
    end function
    integer(c_int) function c_get_attr(comm, keyval, value, flag) bind(C, name='MPI_Comm_get_attr')
      import
      integer(c_intptr_t), value :: comm
      integer(c_int), value :: keyval
      type(c_ptr) :: value
      integer(c_int) :: flag
    end function
  end interface
contains
  subroutine check(good, what)
    logical, intent(in) :: good
    character(*), intent(in) :: what
    if (good) return
    wrong = wrong + 1
    print '(2a)', 'wrong: ', what
  end subroutine

  subroutine copy(object, keyval, extra, value, new, flag, ierror)
    integer :: object, keyval, ierror
    integer(MPI_ADDRESS_KIND) :: extra, value, new
    logical :: flag
    new = value + extra
    flag = value > 0
    ierror = MPI_SUCCESS
  end subroutine

  subroutine delete(object, keyval, value, extra, ierror)
    integer :: object, keyval, ierror
    integer(MPI_ADDRESS_KIND) :: value, extra
    deleted = deleted + 1
    ierror = merge(MPI_ERR_OTHER, MPI_SUCCESS, value == 13)
  end subroutine

  subroutine old_copy(object, keyval, extra, value, new, flag, ierror)
    integer :: object, keyval, extra, value, new, ierror
    logical :: flag
    new = value - extra
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine

  subroutine comm_error(comm, code)
    integer :: comm, code
    integer :: class, ierror
    call MPI_Error_class(code, class, ierror)
    if (comm == MPI_COMM_SELF .and. class == MPI_ERR_RANK) handled = handled + 1
  end subroutine

  subroutine win_error(win, code)
    integer :: win, code
    if (win /= MPI_WIN_NULL .and. code == MPI_ERR_OTHER) handled = handled + 10
  end subroutine

  subroutine query(extra, status, ierror)
    integer(MPI_ADDRESS_KIND) :: extra
    integer :: status(MPI_STATUS_SIZE), ierror
    status(MPI_SOURCE) = int(extra)
    status(MPI_TAG) = 5
    call MPI_Status_set_cancelled(status, given_up > 0, ierror)
    call MPI_Status_set_elements(status, MPI_INTEGER, 3, ierror)
    ierror = MPI_SUCCESS
  end subroutine

  subroutine forget(extra, ierror)
    integer(MPI_ADDRESS_KIND) :: extra
    integer :: ierror
    forgotten = forgotten + 1
    extra = -extra
    ierror = MPI_SUCCESS
  end subroutine

  subroutine give_up(extra, complete, ierror)
    integer(MPI_ADDRESS_KIND) :: extra
    logical :: complete
    integer :: ierror
    if (.not. complete) given_up = given_up + 1
    ierror = MPI_SUCCESS
  end subroutine
end module

program callbacks
  use own
  implicit none
  integer :: ierror
  call MPI_Init(ierror)
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN, ierror)
  call attributes
  call both_languages
  call old_attributes
  call predefined
  call error_handlers
  call requests
  call sizes
  call types
  call infos
  call in_place
  call MPI_Finalize(ierror)
  if (wrong > 0) stop 1
  print '(a)', 'all is well'

contains

  subroutine attributes
    integer(MPI_ADDRESS_KIND) :: value
    integer :: key, new
    logical :: flag
    value = 1000
    call MPI_Comm_create_keyval(copy, delete, key, value, ierror)
    value = 2_MPI_ADDRESS_KIND**40
    call MPI_Comm_set_attr(MPI_COMM_SELF, key, value, ierror)
    call MPI_Comm_dup(MPI_COMM_SELF, new, ierror)
    call MPI_Comm_get_attr(new, key, value, flag, ierror)
    call check(flag .and. value == 2_MPI_ADDRESS_KIND**40 + 1000, 'the copy of a wide attribute')
    value = -7
    call MPI_Comm_set_attr(new, key, value, ierror)
    call check(deleted == 1, 'what is replaced is deleted')
    value = 0
    call MPI_Comm_get_attr(new, key, value, flag, ierror)
    call check(flag .and. value == -7, 'a negative attribute')
    call MPI_Comm_free(new, ierror)
    value = 13
    call MPI_Comm_set_attr(MPI_COMM_SELF, key, value, ierror)
    call MPI_Comm_delete_attr(MPI_COMM_SELF, key, ierror)
    call check(ierror == MPI_ERR_OTHER .and. deleted == 4, 'a deletion that is refused')
    call MPI_Comm_free_keyval(key, ierror)
    call check(key == MPI_KEYVAL_INVALID, 'a key that was freed')

    value = 1
    call MPI_Type_create_keyval(copy, MPI_TYPE_NULL_DELETE_FN, key, value, ierror)
    call MPI_Type_set_attr(MPI_REAL, key, value, ierror)
    call MPI_Type_dup(MPI_REAL, new, ierror)
    call MPI_Type_get_attr(new, key, value, flag, ierror)
    call check(flag .and. value == 2, 'the copy of a type''s attribute')
    call MPI_Type_free(new, ierror)
    call MPI_Type_delete_attr(MPI_REAL, key, ierror)
    call MPI_Type_get_attr(MPI_REAL, key, value, flag, ierror)
    call check(.not. flag, 'an attribute that was deleted')
    call MPI_Type_free_keyval(key, ierror)
  end subroutine

  subroutine both_languages
    integer(c_intptr_t), parameter :: self = MPI_COMM_SELF
    integer(MPI_ADDRESS_KIND) :: value
    integer(MPI_ADDRESS_KIND), pointer :: wide
    integer, pointer :: narrow
    integer, target :: mine
    type(c_ptr) :: place
    integer :: key, old_key, new, old_value
    logical :: flag
    integer(c_int) :: found
    value = 0
    call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, key, value, ierror)
    ! What Fortran sets, C finds at an address.
    value = -(2_MPI_ADDRESS_KIND**50)
    call MPI_Comm_set_attr(MPI_COMM_SELF, key, value, ierror)
    call check(c_get_attr(self, key, place, found) == 0 .and. found == 1, 'C finds the attribute')
    call c_f_pointer(place, wide)
    call check(wide == value, 'C reads Fortran''s integer')
    ! What C sets is an address to Fortran, and stays one in a copy.
    mine = 77
    call check(c_set_attr(self, key, transfer(c_loc(mine), 0_c_intptr_t)) == 0, 'C sets the attribute')
    call MPI_Comm_get_attr(MPI_COMM_SELF, key, value, flag, ierror)
    call check(flag .and. value == transfer(c_loc(mine), 0_c_intptr_t), 'Fortran reads C''s pointer')
    call MPI_Comm_dup(MPI_COMM_SELF, new, ierror)
    call MPI_Comm_get_attr(new, key, value, flag, ierror)
    call check(flag .and. value == transfer(c_loc(mine), 0_c_intptr_t), 'a copy of C''s pointer')
    call MPI_Comm_free(new, ierror)
    call MPI_Comm_delete_attr(MPI_COMM_SELF, key, ierror)
    call MPI_Comm_free_keyval(key, ierror)
    call MPI_Keyval_create(MPI_NULL_COPY_FN, MPI_NULL_DELETE_FN, old_key, 0, ierror)
    call MPI_Attr_put(MPI_COMM_SELF, old_key, -9, ierror)
    found = c_get_attr(self, old_key, place, found)
    call c_f_pointer(place, narrow)
    call check(narrow == -9, 'C reads Fortran''s short integer')
    call MPI_Comm_get_attr(MPI_COMM_SELF, old_key, value, flag, ierror)
    call check(value == -9, 'a short attribute read as a wide one')
    call MPI_Attr_delete(MPI_COMM_SELF, old_key, ierror)
    call MPI_Attr_get(MPI_COMM_SELF, old_key, old_value, flag, ierror)
    call check(.not. flag, 'no attribute after its deletion')
    call MPI_Keyval_free(old_key, ierror)
  end subroutine

  subroutine old_attributes
    integer :: key, dup_key, none_key, value, new
    logical :: flag
    call MPI_Keyval_create(old_copy, MPI_NULL_DELETE_FN, key, 5, ierror)
    call MPI_Keyval_create(MPI_DUP_FN, MPI_NULL_DELETE_FN, dup_key, 0, ierror)
    call MPI_Keyval_create(MPI_NULL_COPY_FN, MPI_NULL_DELETE_FN, none_key, 0, ierror)
    call MPI_Attr_put(MPI_COMM_SELF, key, 2, ierror)
    call MPI_Attr_put(MPI_COMM_SELF, dup_key, 4, ierror)
    call MPI_Attr_put(MPI_COMM_SELF, none_key, 6, ierror)
    call MPI_Comm_dup(MPI_COMM_SELF, new, ierror)
    call MPI_Attr_get(new, key, value, flag, ierror)
    call check(flag .and. value == -3, 'the copy of a short attribute')
    call MPI_Attr_get(new, dup_key, value, flag, ierror)
    call check(flag .and. value == 4, 'MPI_DUP_FN')
    call MPI_Attr_get(new, none_key, value, flag, ierror)
    call check(.not. flag, 'MPI_NULL_COPY_FN')
    call MPI_Comm_free(new, ierror)
    call MPI_Keyval_free(key, ierror)
    call MPI_Keyval_free(dup_key, ierror)
    call MPI_Keyval_free(none_key, ierror)
  end subroutine

  subroutine predefined
    integer(MPI_ADDRESS_KIND) :: value, size
    integer :: memory(4), win, short
    logical :: flag
    call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, ierror)
    call MPI_Attr_get(MPI_COMM_WORLD, MPI_TAG_UB, short, flag, ierror)
    call check(flag .and. value >= 32767 .and. short == value, 'the largest tag')
    call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_HOST, value, flag, ierror)
    call check(value == MPI_PROC_NULL, 'the host')
    size = 16
    call MPI_Win_create(memory, size, 4, MPI_INFO_NULL, MPI_COMM_SELF, win, ierror)
    call MPI_Win_get_attr(win, MPI_WIN_SIZE, value, flag, ierror)
    call check(flag .and. value == 16, 'the size of a window')
    call MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, value, flag, ierror)
    call check(flag .and. value == 4, 'the unit of a window')
    call MPI_Win_get_attr(win, MPI_WIN_BASE, value, flag, ierror)
    call MPI_Get_address(memory, size, ierror)
    call check(flag .and. value == size, 'the base of a window')
    call check(MPI_Aint_diff(MPI_Aint_add(value, 8_MPI_ADDRESS_KIND), value) == 8, 'sums of addresses')
    call check(PMPI_Aint_add(value, 8_MPI_ADDRESS_KIND) == value + 8, 'sums of addresses by the other name')
    call MPI_Win_free(win, ierror)
  end subroutine

  subroutine error_handlers
    integer(MPI_ADDRESS_KIND) :: size
    integer :: handler, other, win, memory(4)
    call MPI_Comm_create_errhandler(comm_error, handler, ierror)
    call MPI_Comm_set_errhandler(MPI_COMM_SELF, handler, ierror)
    call MPI_Send(memory, 1, MPI_INTEGER, 99, 0, MPI_COMM_SELF, ierror)
    call check(handled == 1 .and. ierror /= MPI_SUCCESS, 'an error handler is called')
    call MPI_Errhandler_get(MPI_COMM_SELF, other, ierror)
    call check(other /= MPI_ERRHANDLER_NULL, 'an error handler by its old name')
    call MPI_Errhandler_free(other, ierror)
    call MPI_Errhandler_free(handler, ierror)
    call MPI_Errhandler_create(comm_error, handler, ierror)
    call MPI_Errhandler_set(MPI_COMM_SELF, handler, ierror)
    call MPI_Send(memory, 1, MPI_INTEGER, 99, 0, MPI_COMM_SELF, ierror)
    call check(handled == 2, 'an error handler of the old name is called')
    call MPI_Errhandler_set(MPI_COMM_SELF, MPI_ERRORS_RETURN, ierror)
    call MPI_Errhandler_free(handler, ierror)
    size = 16
    call MPI_Win_create(memory, size, 4, MPI_INFO_NULL, MPI_COMM_SELF, win, ierror)
    call MPI_Win_create_errhandler(win_error, handler, ierror)
    call MPI_Win_set_errhandler(win, handler, ierror)
    call MPI_Win_call_errhandler(win, MPI_ERR_OTHER, ierror)
    call check(handled == 12, 'a window''s error handler is called')
    call MPI_Errhandler_free(handler, ierror)
    call MPI_Win_free(win, ierror)
  end subroutine

  subroutine requests
    integer(MPI_ADDRESS_KIND), target :: extra
    integer :: request, status(MPI_STATUS_SIZE), elements
    logical :: flag
    extra = 21
    call MPI_Grequest_start(query, forget, give_up, extra, request, ierror)
    call MPI_Test(request, flag, MPI_STATUS_IGNORE, ierror)
    call check(.not. flag, 'a request under way')
    call MPI_Cancel(request, ierror)
    call check(given_up == 1, 'a request is cancelled')
    call MPI_Grequest_complete(request, ierror)
    call MPI_Wait(request, status, ierror)
    call MPI_Get_count(status, MPI_INTEGER, elements, ierror)
    call MPI_Test_cancelled(status, flag, ierror)
    call check(status(MPI_SOURCE) == 21 .and. status(MPI_TAG) == 5, 'the status of a request')
    call check(elements == 3 .and. flag, 'the rest of the status')
    call check(request == MPI_REQUEST_NULL .and. forgotten == 1 .and. extra == -21, 'a request is freed')
  end subroutine

  subroutine sizes
    integer :: bytes, others
    complex(8) :: matrix(3, 4)
    integer(2) :: short
    logical :: truth
    character(7) :: text
    call MPI_Sizeof(matrix, bytes, ierror)
    call PMPI_Sizeof(matrix(:, 2:4:2), others, ierror)
    call check(bytes == 16 .and. others == 16 .and. ierror == MPI_SUCCESS, 'the size of complex numbers')
    call MPI_Sizeof(short, bytes, ierror)
    call check(bytes == 2, 'the size of short integers')
    call MPI_Sizeof(truth, bytes, ierror)
    call MPI_Type_size(MPI_LOGICAL, others, ierror)
    call check(bytes == others, 'the size of truth')
    call MPI_Sizeof(text, bytes, ierror)
    call check(bytes == 7, 'the size of text')
    call check(PMPI_Wtick() > 0 .and. PMPI_Wtime() <= MPI_Wtime(), 'clocks')
  end subroutine

  subroutine types
    integer :: pair(2), vector, indexed, structure, kinds(2), low, high, length, first, second
    integer(MPI_ADDRESS_KIND) :: position, room, addresses(2)
    integer :: numbers(9), combiner, integers, places, number, inner(2)
    character(64) :: packed
    call MPI_Type_hvector(2, 1, 12, MPI_INTEGER, vector, ierror)
    call MPI_Type_extent(vector, length, ierror)
    call check(length == 16, 'the extent of a vector')
    call MPI_Type_hindexed(2, [1, 2], [8, 20], MPI_INTEGER, indexed, ierror)
    call MPI_Type_lb(indexed, low, ierror)
    call MPI_Type_ub(indexed, high, ierror)
    call check(low == 8 .and. high == 28, 'the bounds of blocks')
    call MPI_Type_struct(2, [1, 1], [0, 16], [MPI_DOUBLE_PRECISION, vector], structure, ierror)
    call MPI_Type_get_envelope(structure, integers, places, number, combiner, ierror)
    call check(combiner == MPI_COMBINER_STRUCT .and. number == 2, 'how a structure was made')
    call MPI_Type_get_contents(structure, 9, 2, 2, numbers, addresses, inner, ierror)
    call check(all(addresses == [0, 16]) .and. inner(1) == MPI_DOUBLE_PRECISION, 'what a structure is made of')
    call MPI_Type_size(inner(2), length, ierror)
    call check(length == 8, 'a type within a structure')
    call MPI_Type_free(inner(2), ierror)
    call MPI_Type_free(structure, ierror)
    call MPI_Type_free(indexed, ierror)
    call MPI_Type_free(vector, ierror)
    call MPI_Address(pair(1), first, ierror)
    call MPI_Address(pair(2), second, ierror)
    call check(second - first == 4, 'the difference of two short addresses')
    room = 64
    position = 0
    call MPI_Pack_external('external32', [1, 2], 2, MPI_INTEGER, packed, room, position, ierror)
    call check(position == 8 .and. packed(4:4) == char(1), 'packed for everybody')
    position = 0
    call MPI_Unpack_external('external32', packed, room, position, pair, 2, MPI_INTEGER, ierror)
    call check(all(pair == [1, 2]), 'unpacked again')
    kinds = 0
    call MPI_Type_struct(-1, [1, 1], [0, 16], kinds, structure, ierror)
    call check(ierror /= MPI_SUCCESS, 'fewer than no blocks')
  end subroutine

  subroutine infos
    integer :: info, length
    character(12) :: text
    logical :: flag
    call MPI_Info_create_env(info, ierror)
    call check(info /= MPI_INFO_NULL, 'what the program was started with')
    call MPI_Info_set(info, 'key', ' value ', ierror)
    length = 0
    text = ' as before'
    call MPI_Info_get_string(info, 'key', length, text, flag, ierror)
    call check(flag .and. length == 5 .and. text == ' as before', 'the length of a value')
    length = 3
    call MPI_Info_get_string(info, 'key', length, text, flag, ierror)
    call check(flag .and. length == 5 .and. text == 'val', 'the beginning of a value')
    call MPI_Info_free(info, ierror)
  end subroutine

  subroutine in_place
    integer :: numbers(1)
    numbers = 3
    call MPI_Alltoallw(MPI_IN_PLACE, 0, 0, MPI_DATATYPE_NULL, numbers, [1], [0], [MPI_INTEGER], MPI_COMM_SELF, ierror)
    call check(ierror == MPI_SUCCESS .and. numbers(1) == 3, 'types are not asked for in place')
  end subroutine
end program
