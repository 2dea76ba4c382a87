!> Fields on the ranks of an MPI communicator, for Fortran 2008: the functions of spider/distributed.h. Communicators are
!> default integers, as `use mpi` has them; with `use mpi_f08` pass comm%mpi_val. Extents and origins are z, y, x, as C has
!> them: Fortran's x, y, z backwards.
module spider_distributed
  use, intrinsic :: iso_c_binding
  use spider, only: spider_field, spider_string, spider_sweep
  implicit none
  private
  public :: spider_grid_create, spider_grid_free, spider_grid_exchange, spider_grid_iterate, spider_grid_run, spider_grid_wait
  public :: spider_grid_scatter, spider_grid_gather, spider_grid_read_npy, spider_grid_write_npy, spider_select_device
  public :: spider_get_layout, spider_grid_of_field, spider_grid_read_reductions, spider_grid_run_until, spider_grid_transport

  integer(c_int32_t), parameter, public :: SPIDER_ERROR_RANKS = 13

  !> struct spider_grid_layout: what a rank must know of its part.
  type, bind(c), public :: spider_grid_layout
    integer(c_int32_t) :: size, ranks, rank
    integer(c_int32_t) :: parts(3), place(3), periodic(3)
    integer(c_int64_t) :: origin(3), whole(3)  !< of this rank's part, and of the whole
    integer(c_int64_t) :: extent(3)            !< of this rank's fields
    integer(c_int64_t) :: low(3), high(3)      !< cells of halo that they keep
  end type

  interface
    integer(c_int32_t) function grid_create(communicator, kernel, whole, periodic, grid) bind(c, name='spider_grid_create_f')
      import :: c_int, c_int32_t, c_int64_t, c_ptr
      integer(c_int), value :: communicator
      type(c_ptr), value :: kernel, periodic
      integer(c_int64_t), intent(in) :: whole(3)
      type(c_ptr), intent(out) :: grid
    end function
    integer(c_int32_t) function spider_grid_free(grid) bind(c)
      import :: c_int32_t, c_ptr
      type(c_ptr), value :: grid
    end function
    type(c_ptr) function grid_info(grid) bind(c, name='spider_grid_info')
      import :: c_ptr
      type(c_ptr), value :: grid
    end function
    type(c_ptr) function grid_transport(grid) bind(c, name='spider_grid_transport')
      import :: c_ptr
      type(c_ptr), value :: grid
    end function
    !> The grid of one field of a system of equations, counted from 0; c_null_ptr where there is none. It belongs to `grid`.
    type(c_ptr) function spider_grid_of_field(grid, field) bind(c)
      import :: c_int32_t, c_ptr
      type(c_ptr), value :: grid
      integer(c_int32_t), value :: field
    end function
    integer(c_int32_t) function spider_grid_exchange(grid, field, stream) bind(c)
      import :: c_int32_t, c_ptr, spider_field
      type(c_ptr), value :: grid, stream
      type(spider_field), intent(in) :: field
    end function
    !> `result` becomes the address of that of `a` and `b` which holds the last step: compare with c_loc(a).
    integer(c_int32_t) function spider_grid_iterate(grid, a, b, steps, stream, result) bind(c)
      import :: c_int32_t, c_int64_t, c_ptr, spider_field
      type(c_ptr), value :: grid, stream
      type(spider_field), intent(in), target :: a, b
      integer(c_int64_t), value :: steps
      type(c_ptr), intent(out) :: result
    end function
    !> The same of a kernel with an update, with what it takes; `result` is the address of one of the sweep's fields. Of a system
    !> of equations `result` is c_null_ptr.
    integer(c_int32_t) function spider_grid_run(grid, sweep, steps, result) bind(c)
      import :: c_int32_t, c_int64_t, c_ptr, spider_sweep
      type(c_ptr), value :: grid
      type(spider_sweep), intent(in) :: sweep
      integer(c_int64_t), value :: steps
      type(c_ptr), intent(out) :: result
    end function
    !> The numbers of a system's `reduce`, of the points of all ranks.
    integer(c_int32_t) function spider_grid_read_reductions(grid, reductions, values, stream) bind(c)
      import :: c_int32_t, c_double, c_ptr
      type(c_ptr), value :: grid, reductions, stream
      real(c_double), intent(out) :: values(*)
    end function
    !> Steps of a system until reduction `reduction`, from 0, is at most `bound`; sweep%reductions is given.
    integer(c_int32_t) function spider_grid_run_until(grid, sweep, steps, reduction, bound, check_every, done, values) bind(c)
      import :: c_int32_t, c_int64_t, c_double, c_ptr, spider_sweep
      type(c_ptr), value :: grid
      type(spider_sweep), intent(in) :: sweep
      integer(c_int64_t), value :: steps, check_every
      integer(c_int32_t), value :: reduction
      real(c_double), value :: bound
      integer(c_int64_t), intent(out) :: done
      real(c_double), intent(out) :: values(*)
    end function
    integer(c_int32_t) function spider_grid_wait(grid, stream, seconds) bind(c)
      import :: c_int32_t, c_double, c_ptr
      type(c_ptr), value :: grid, stream
      real(c_double), value :: seconds
    end function
    !> `whole` is c_loc of an array of the kernel's type on `root`, c_null_ptr elsewhere.
    integer(c_int32_t) function spider_grid_scatter(grid, whole, root, field) bind(c)
      import :: c_int32_t, c_ptr, spider_field
      type(c_ptr), value :: grid, whole
      integer(c_int32_t), value :: root
      type(spider_field), intent(in) :: field
    end function
    integer(c_int32_t) function spider_grid_gather(grid, field, root, whole) bind(c)
      import :: c_int32_t, c_ptr, spider_field
      type(c_ptr), value :: grid, whole
      integer(c_int32_t), value :: root
      type(spider_field), intent(in) :: field
    end function
    integer(c_int32_t) function grid_read_npy(grid, path, field) bind(c, name='spider_grid_read_npy')
      import :: c_int32_t, c_char, c_ptr, spider_field
      type(c_ptr), value :: grid
      character(kind=c_char), intent(in) :: path(*)
      type(spider_field), intent(in) :: field
    end function
    integer(c_int32_t) function grid_write_npy(grid, field, path) bind(c, name='spider_grid_write_npy')
      import :: c_int32_t, c_char, c_ptr, spider_field
      type(c_ptr), value :: grid
      character(kind=c_char), intent(in) :: path(*)
      type(spider_field), intent(in) :: field
    end function
    !> Makes a device current that no other rank takes.
    integer(c_int32_t) function spider_select_device(communicator) bind(c, name='spider_select_device_f')
      import :: c_int, c_int32_t
      integer(c_int), value :: communicator
    end function
  end interface

contains

  !> Cuts `whole` (z, y, x) over the ranks of the communicator; planes of a kernel without z are images of a batch. `periodic` says
  !> what the caller expects of the kernel's rules.
  integer(c_int32_t) function spider_grid_create(communicator, kernel, whole, grid, periodic) result(status)
    integer, intent(in) :: communicator
    type(c_ptr), intent(in) :: kernel
    integer(c_int64_t), intent(in) :: whole(3)
    type(c_ptr), intent(out) :: grid
    logical, intent(in), optional :: periodic(3)
    integer(c_int32_t), target :: expected(3)

    grid = c_null_ptr
    if (present(periodic)) then
      expected = merge(1_c_int32_t, 0_c_int32_t, periodic)
      status = grid_create(int(communicator, c_int), kernel, whole, c_loc(expected), grid)
    else
      status = grid_create(int(communicator, c_int), kernel, whole, c_null_ptr, grid)
    end if
  end function

  !> What this rank must know of its part of a grid that was created.
  type(spider_grid_layout) function spider_get_layout(grid) result(layout)
    type(c_ptr), intent(in) :: grid
    type(spider_grid_layout), pointer :: known

    call c_f_pointer(grid_info(grid), known)
    layout = known
  end function

  !> How halos come to this rank and leave it, in words, of a grid that was created.
  function spider_grid_transport(grid) result(words)
    type(c_ptr), intent(in) :: grid
    character(:), allocatable :: words

    words = spider_string(grid_transport(grid))
  end function

  integer(c_int32_t) function spider_grid_read_npy(grid, path, field) result(status)
    type(c_ptr), intent(in) :: grid
    character(*), intent(in) :: path
    type(spider_field), intent(in) :: field

    status = grid_read_npy(grid, trim(path) // c_null_char, field)
  end function

  integer(c_int32_t) function spider_grid_write_npy(grid, field, path) result(status)
    type(c_ptr), intent(in) :: grid
    type(spider_field), intent(in) :: field
    character(*), intent(in) :: path

    status = grid_write_npy(grid, field, trim(path) // c_null_char)
  end function
end module
