!> The interface of generated stencil kernels for Fortran 2008: that of spider/spider.h, spider/memory.h and spider/points.h under
!> the same names, and on top of it fields that own their memory.
!>
!> Fortran's first index runs fastest: an array a(columns, rows, planes) is what C, and the specs of stencils, call planes
!> x rows x columns with axes z, y, x. Extents and offsets of the C interface are z, y, x; those of `spider_field_create`,
!> and the shapes of arrays, are Fortran's x, y, z.
!>
!> Fields of f32 are default reals, those of f64 double precision. Fortran has no 16-bit reals. Values of kernels that store
!> f16 or bf16 are converted from and to default reals by `spider_field_set` and `spider_field_get`, or by `spider_to_f16`,
!> `spider_to_bf16` and their inverses, one by one.
!>
!> A generated kernel is a function without arguments:
!>
!>     interface
!>       function heat2d_kernel() bind(c) result(kernel)
!>         import :: c_ptr
!>         type(c_ptr) :: kernel
!>       end function
!>     end interface
module spider
  use, intrinsic :: iso_c_binding
  implicit none
  private

  ! Outcomes of a call, with the values of spider.h.
  integer(c_int32_t), parameter, public :: &
    SPIDER_OK = 0, SPIDER_ERROR_NULL = 1, SPIDER_ERROR_KERNEL = 2, SPIDER_ERROR_EXTENT = 3, SPIDER_ERROR_STRIDE = 4, &
    SPIDER_ERROR_ALIGNMENT = 5, SPIDER_ERROR_OVERLAP = 6, SPIDER_ERROR_STEPS = 7, SPIDER_ERROR_UNSUPPORTED = 8, &
    SPIDER_ERROR_DEVICE = 9, SPIDER_ERROR_MEMORY = 10, SPIDER_ERROR_LAUNCH = 11, SPIDER_ERROR_EMULATION = 12
  integer(c_int32_t), parameter, public :: SPIDER_ABI = 1
  ! Storages of a kernel.
  integer(c_int32_t), parameter, public :: SPIDER_F16 = 0, SPIDER_F32 = 1, SPIDER_BF16 = 2, SPIDER_F64 = 3, &
    SPIDER_U8 = 4, SPIDER_U16 = 5, SPIDER_I16 = 6

  ! Bits of the use of a system's field.
  integer(c_int32_t), parameter, public :: SPIDER_FIELD_READ = 1, SPIDER_FIELD_WRITTEN = 2, SPIDER_FIELD_TWO_BUFFERS = 4, &
    SPIDER_FIELD_RESULT_IN_OUTPUT = 8

  !> struct spider_field: a grid in memory owned by somebody else.
  type, bind(c), public :: spider_field
    type(c_ptr) :: data = c_null_ptr          !< the first interior element
    integer(c_int64_t) :: extent(3) = 1       !< z, y, x
    integer(c_int64_t) :: stride(2) = 0       !< elements from plane to plane, from row to row
  end type

  !> struct spider_kernel_info; name, generator and spec_hash are C strings; spider_string converts them.
  type, bind(c), public :: spider_kernel_info
    integer(c_int32_t) :: size, abi
    type(c_ptr) :: name, generator, spec_hash
    integer(c_int32_t) :: dimensions, storage, accumulate, steps
    integer(c_int32_t) :: reach_low(3), reach_high(3)  !< z, y, x
    integer(c_int32_t) :: minimum_arch, emulated
    integer(c_int32_t) :: backend  !< 0 CUDA, 1 emulated, 2 host
    ! Arguments of an update; names are C strings, or arrays of them.
    type(c_ptr) :: previous
    integer(c_int32_t) :: field_count, scalar_count
    type(c_ptr) :: field_names, field_storages, scalar_names
    ! For a system of equations, otherwise 0 and null: the number of kernels that a sweep runs, and for each field
    ! SPIDER_FIELD_READ, ... and bits 0, 1, 2 for the axes z, y, x along which it has cells.
    integer(c_int32_t) :: launch_count
    type(c_ptr) :: field_uses, field_axes
    type(c_ptr) :: reduction_names        !< numbers that a sweep of a system makes of all points
    integer(c_int32_t) :: reduction_count
    integer(c_int32_t) :: output          !< SPIDER_F16, ... of results
  end type

  !> struct spider_part: where fields lie in a larger whole, in cells z, y, x; the origin from 0.
  type, bind(c), public :: spider_part
    integer(c_int64_t) :: origin(3) = 0
    integer(c_int64_t) :: whole(3) = 1
  end type

  !> struct spider_sweep. Fields are c_loc() of a spider_field, `fields` that of an array of such addresses, `scalars` that of
  !> an array of real(c_double), `part` that of a spider_part. `spider_field_run` fills it in.
  type, bind(c), public :: spider_sweep
    integer(c_int32_t) :: size = 0                   !< storage_size(sweep) / 8
    type(c_ptr) :: in = c_null_ptr, out = c_null_ptr, previous = c_null_ptr
    type(c_ptr) :: fields = c_null_ptr, scalars = c_null_ptr
    integer(c_int64_t) :: offset(3) = 0, extent(3) = 0  !< of the box to write, z, y, x; zeros: all
    type(c_ptr) :: part = c_null_ptr, stream = c_null_ptr
    type(c_ptr) :: out_previous = c_null_ptr  !< of several steps with `previous`: where the step before the last one goes
    type(c_ptr) :: outputs = c_null_ptr       !< of systems: addresses of second buffers, as `fields`, or null
    integer(c_int32_t) :: first_launch = 0, launch_count = 0  !< of systems, from 0; 0, 0: all
    type(c_ptr) :: reductions = c_null_ptr    !< of systems: a spider_reductions, or null
    !> Images that one call sweeps, 0 or 1: one; elements from image to image, for `out` if that is not 0; and the address of the
    !> strides of each further field, or null.
    integer(c_int64_t) :: batch = 0, batch_stride = 0, out_batch_stride = 0
    type(c_ptr) :: field_batch_strides = c_null_ptr
    type(c_ptr) :: scratch = c_null_ptr  !< memory between passes, spider_scratch_bytes of it, or null
    integer(c_int64_t) :: scratch_bytes = 0
  end type

  !> A field with room for the halo that a kernel reads, rows on 128 bytes, zero-initialised. It is device memory with the CUDA back
  !> end. `spider_field_destroy` releases it; a copy by assignment shares the memory.
  type, public :: spider_owned_field
    type(spider_field) :: c                    !< for the functions of the C interface
    type(c_ptr), private :: memory = c_null_ptr
    integer(c_int32_t), private :: storage = SPIDER_F16
  end type

  interface
    integer(c_int32_t) function spider_abi_version() bind(c)
      import :: c_int32_t
    end function
    !> A pointer to a spider_kernel_info; null where `kernel` is no kernel. `spider_get_info` follows it.
    type(c_ptr) function spider_info(kernel) bind(c)
      import :: c_ptr
      type(c_ptr), value :: kernel
    end function
    !> How many cells (z, y, x) a sweep over these extents reads outside the interior: 0 except at faces whose rule is halo.
    integer(c_int32_t) function spider_halo(kernel, extent, low, high) bind(c)
      import :: c_ptr, c_int32_t, c_int64_t
      type(c_ptr), value :: kernel
      integer(c_int64_t), intent(in) :: extent(3)
      integer(c_int64_t), intent(out) :: low(3), high(3)
    end function
    !> The same for fields that are a part of a whole: c_loc() of a spider_part.
    integer(c_int32_t) function spider_halo_of_part(kernel, extent, part, low, high) bind(c)
      import :: c_ptr, c_int32_t, c_int64_t
      type(c_ptr), value :: kernel, part
      integer(c_int64_t), intent(in) :: extent(3)
      integer(c_int64_t), intent(out) :: low(3), high(3)
    end function
    !> The same for further fields that an update reads: 0 if a sweep has one step.
    integer(c_int32_t) function spider_halo_of_fields(kernel, extent, low, high) bind(c)
      import :: c_ptr, c_int32_t, c_int64_t
      type(c_ptr), value :: kernel
      integer(c_int64_t), intent(in) :: extent(3)
      integer(c_int64_t), intent(out) :: low(3), high(3)
    end function
    !> The same for one field of a system, from 0; `part` is c_loc() of a spider_part, or c_null_ptr.
    integer(c_int32_t) function spider_halo_of_field(kernel, field, extent, part, low, high) bind(c)
      import :: c_ptr, c_int32_t, c_int64_t
      type(c_ptr), value :: kernel, part
      integer(c_int32_t), value :: field
      integer(c_int64_t), intent(in) :: extent(3)
      integer(c_int64_t), intent(out) :: low(3), high(3)
    end function
    integer(c_int32_t) function spider_prepare(kernel) bind(c)
      import :: c_ptr, c_int32_t
      type(c_ptr), value :: kernel
    end function
    !> One sweep. `stream` is a cudaStream_t, or c_null_ptr for the legacy default stream.
    integer(c_int32_t) function spider_apply(kernel, in, out, stream) bind(c)
      import :: c_ptr, c_int32_t, spider_field
      type(c_ptr), value :: kernel
      type(spider_field), intent(in) :: in, out
      type(c_ptr), value :: stream
    end function
    !> `offset` and `extent` are z, y, x, from 0.
    integer(c_int32_t) function spider_apply_box(kernel, in, out, offset, extent, stream) bind(c)
      import :: c_ptr, c_int32_t, c_int64_t, spider_field
      type(c_ptr), value :: kernel
      type(spider_field), intent(in) :: in, out
      integer(c_int64_t), intent(in) :: offset(3), extent(3)
      type(c_ptr), value :: stream
    end function
    !> `result` becomes the address of `a` or `b`, whichever has the last step: give both the attribute target and compare with
    !> c_loc(a), or pass spider_owned_fields to `spider_field_iterate`.
    integer(c_int32_t) function spider_iterate(kernel, a, b, steps, stream, result) bind(c)
      import :: c_ptr, c_int32_t, c_int64_t, spider_field
      type(c_ptr), value :: kernel
      type(spider_field), intent(in), target :: a, b
      integer(c_int64_t), value :: steps
      type(c_ptr), value :: stream
      type(c_ptr), intent(out) :: result
    end function
    !> One sweep with the arguments of an update.
    integer(c_int32_t) function spider_run(kernel, sweep) bind(c)
      import :: c_ptr, c_int32_t, spider_sweep
      type(c_ptr), value :: kernel
      type(spider_sweep), intent(in) :: sweep
    end function
    !> `result` becomes the address of the field of the sweep with the last step.
    integer(c_int32_t) function spider_run_steps(kernel, sweep, steps, result) bind(c)
      import :: c_ptr, c_int32_t, c_int64_t, spider_sweep
      type(c_ptr), value :: kernel
      type(spider_sweep), intent(in) :: sweep
      integer(c_int64_t), value :: steps
      type(c_ptr), intent(out) :: result
    end function
    !> How many bytes of `scratch` the sweep needs; reads only `in` of its fields, whose data may be null.
    integer(c_int32_t) function spider_scratch_bytes(kernel, sweep, bytes) bind(c)
      import :: c_ptr, c_int32_t, c_int64_t, spider_sweep
      type(c_ptr), value :: kernel
      type(spider_sweep), intent(in) :: sweep
      integer(c_int64_t), intent(out) :: bytes
    end function
    !> Sources and receivers: `cells` are z, y, x of each, from 0; `extent` is that of the fields. `spider_field_points` takes
    !> Fortran's indices.
    integer(c_int32_t) function spider_points_create(kernel, extent, cells, count, points) bind(c)
      import :: c_ptr, c_int32_t, c_int64_t
      type(c_ptr), value :: kernel
      integer(c_int64_t), intent(in) :: extent(3), cells(3, *)
      integer(c_int64_t), value :: count
      type(c_ptr), intent(out) :: points
    end function
    !> The same for one field of a system, from 0; `extent` is its own.
    integer(c_int32_t) function spider_points_create_of_field(kernel, field, extent, cells, count, points) bind(c)
      import :: c_ptr, c_int32_t, c_int64_t
      type(c_ptr), value :: kernel
      integer(c_int32_t), value :: field
      integer(c_int64_t), intent(in) :: extent(3), cells(3, *)
      integer(c_int64_t), value :: count
      type(c_ptr), intent(out) :: points
    end function
    integer(c_int32_t) function spider_points_free(points) bind(c)
      import :: c_ptr, c_int32_t
      type(c_ptr), value :: points
    end function
    !> Adds values(i) to cell i; `values` is memory of the back end, e.g. a `spider_field_row`.
    integer(c_int32_t) function spider_points_add(points, field, values, stream) bind(c)
      import :: c_ptr, c_int32_t, spider_field
      type(c_ptr), value :: points, values, stream
      type(spider_field), intent(in) :: field
    end function
    !> Sets values(i) to cell i.
    integer(c_int32_t) function spider_points_read(points, field, values, stream) bind(c)
      import :: c_ptr, c_int32_t, spider_field
      type(c_ptr), value :: points, values, stream
      type(spider_field), intent(in) :: field
    end function
    !> Accumulators for the reductions of a system's sweeps.
    integer(c_int32_t) function spider_reductions_create(kernel, reductions) bind(c)
      import :: c_ptr, c_int32_t
      type(c_ptr), value :: kernel
      type(c_ptr), intent(out) :: reductions
    end function
    integer(c_int32_t) function spider_reductions_free(reductions) bind(c)
      import :: c_ptr, c_int32_t
      type(c_ptr), value :: reductions
    end function
    !> The numbers of all points since the last read, in the order of the spec; waits for the stream.
    integer(c_int32_t) function spider_reductions_read(reductions, values, stream) bind(c)
      import :: c_ptr, c_int32_t, c_double
      type(c_ptr), value :: reductions, stream
      real(c_double), intent(out) :: values(*)
    end function
    !> Takes steps until reduction `reduction`, from 0, is at most `bound`. `spider_system_run_until` fills the sweep in.
    integer(c_int32_t) function spider_run_until(kernel, sweep, steps, reduction, bound, check_every, done, values) bind(c)
      import :: c_ptr, c_int32_t, c_int64_t, c_double, spider_sweep
      type(c_ptr), value :: kernel
      type(spider_sweep), intent(in) :: sweep
      integer(c_int64_t), value :: steps, check_every
      integer(c_int32_t), value :: reduction
      real(c_double), value :: bound
      integer(c_int64_t), intent(out) :: done
      real(c_double), intent(out) :: values(*)
    end function
    type(c_ptr) function spider_status_string(status) bind(c)
      import :: c_ptr, c_int32_t
      integer(c_int32_t), value :: status
    end function
    type(c_ptr) function spider_last_error() bind(c)
      import :: c_ptr
    end function

    integer(c_int32_t) function spider_allocate(bytes, memory) bind(c)
      import :: c_ptr, c_int32_t, c_int64_t
      integer(c_int64_t), value :: bytes
      type(c_ptr), intent(out) :: memory
    end function
    integer(c_int32_t) function spider_free(memory) bind(c)
      import :: c_ptr, c_int32_t
      type(c_ptr), value :: memory
    end function
    !> Pitches are bytes from row to row.
    integer(c_int32_t) function spider_upload(to, to_pitch, from_host, from_pitch, row_bytes, rows) bind(c)
      import :: c_ptr, c_int32_t, c_int64_t
      type(c_ptr), value :: to, from_host
      integer(c_int64_t), value :: to_pitch, from_pitch, row_bytes, rows
    end function
    integer(c_int32_t) function spider_download(to_host, to_pitch, from, from_pitch, row_bytes, rows) bind(c)
      import :: c_ptr, c_int32_t, c_int64_t
      type(c_ptr), value :: to_host, from
      integer(c_int64_t), value :: to_pitch, from_pitch, row_bytes, rows
    end function
    integer(c_int32_t) function spider_synchronize(stream) bind(c)
      import :: c_ptr, c_int32_t
      type(c_ptr), value :: stream
    end function
    integer(c_int32_t) function spider_clear(memory, bytes) bind(c)
      import :: c_ptr, c_int32_t, c_int64_t
      type(c_ptr), value :: memory
      integer(c_int64_t), value :: bytes
    end function
  end interface

  public :: spider_abi_version, spider_info, spider_halo, spider_halo_of_part, spider_halo_of_fields, &
    spider_halo_of_field, spider_points_create_of_field, spider_prepare, spider_apply, &
    spider_apply_box, spider_iterate, spider_run, spider_run_steps, spider_scratch_bytes, &
    spider_points_create, spider_points_free, spider_points_add, spider_points_read, &
    spider_reductions_create, spider_reductions_free, spider_reductions_read, spider_run_until, &
    spider_status_string, spider_last_error, spider_allocate, spider_free, spider_upload, spider_download, &
    spider_synchronize, spider_clear

  !> Fills the interior of a field from an array of its shape, of default reals or double precision. Values are rounded to the
  !> kernel's storage; doubles go through default reals unless that is f64.
  interface spider_field_set
    module procedure set_1d, set_2d, set_3d, set_1d_double, set_2d_double, set_3d_double
  end interface
  !> Copies the interior of a field into an array of its shape. Waits for the legacy default stream's work only.
  interface spider_field_get
    module procedure get_1d, get_2d, get_3d, get_1d_double, get_2d_double, get_3d_double
  end interface

  public :: spider_string, spider_error, spider_get_info, spider_to_f16, spider_from_f16, spider_to_bf16, spider_from_bf16, &
    spider_field_create, spider_field_allocate, spider_field_destroy, spider_field_set, spider_field_get, &
    spider_field_iterate, spider_field_run, spider_field_run_steps, spider_field_points, spider_field_row, &
    spider_system_field, spider_system_run, spider_system_run_until, spider_field_apply_images

  interface
    integer(c_size_t) function string_length(text) bind(c, name='strlen')
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
    end function
  end interface

  integer(c_int64_t), parameter :: row_alignment = 128  ! bytes
  integer, parameter :: most_fields = 32                ! as many as a system can have

contains

  !> The text of a C string; empty for a null pointer.
  function spider_string(text) result(string)
    type(c_ptr), intent(in) :: text
    character(len=:), allocatable :: string
    character(kind=c_char), pointer :: letters(:)
    integer :: i
    string = ''
    if (.not. c_associated(text)) return
    call c_f_pointer(text, letters, [string_length(text)])
    string = repeat(' ', size(letters))
    do i = 1, size(letters)
      string(i:i) = letters(i)
    end do
  end function

  !> The reason for this thread's last failed call.
  function spider_error() result(words)
    character(len=:), allocatable :: words
    words = spider_string(spider_last_error())
  end function

  !> A kernel's description.
  integer(c_int32_t) function spider_get_info(kernel, info) result(status)
    type(c_ptr), intent(in) :: kernel
    type(spider_kernel_info), intent(out) :: info
    type(spider_kernel_info), pointer :: found
    type(c_ptr) :: address
    address = spider_info(kernel)
    status = SPIDER_ERROR_KERNEL
    if (.not. c_associated(address)) return
    call c_f_pointer(address, found)
    info = found
    status = SPIDER_OK
  end function

  !> A field for `kernel`; `extents` are those of the array: [columns, rows, planes], as many as the kernel has axes.
  integer(c_int32_t) function spider_field_create(kernel, extents, field) result(status)
    type(c_ptr), intent(in) :: kernel
    integer, intent(in) :: extents(:)
    type(spider_owned_field), intent(out) :: field
    type(spider_kernel_info) :: info
    integer(c_int64_t) :: low(3), high(3)
    status = spider_get_info(kernel, info)
    if (status /= SPIDER_OK) return
    status = SPIDER_ERROR_EXTENT
    if (size(extents) /= info%dimensions .or. any(extents < 0)) return

    field%c%extent(4 - size(extents):) = extents(size(extents):1:-1)
    status = spider_halo(kernel, field%c%extent, low, high)
    if (status /= SPIDER_OK) return
    status = allocate_field(info%storage, low, high, field)
  end function

  !> Field `number` of a system, from 1 in the order of its spec, or its second buffer. `extents` are those of fields with all axes:
  !> [columns, rows, planes]; the field has one cell along axes that it lacks.
  integer(c_int32_t) function spider_system_field(kernel, number, extents, field) result(status)
    type(c_ptr), intent(in) :: kernel
    integer, intent(in) :: number, extents(:)
    type(spider_owned_field), intent(out) :: field
    type(spider_kernel_info) :: info
    integer(c_int32_t), pointer :: storages(:), axes(:)
    integer(c_int64_t) :: low(3), high(3)
    integer :: axis
    status = spider_get_info(kernel, info)
    if (status /= SPIDER_OK) return
    status = SPIDER_ERROR_EXTENT
    if (size(extents) /= info%dimensions .or. any(extents < 0)) return
    field%c%extent(4 - size(extents):) = extents(size(extents):1:-1)
    status = spider_halo_of_field(kernel, int(number - 1, c_int32_t), field%c%extent, c_null_ptr, low, high)
    if (status /= SPIDER_OK) return
    call c_f_pointer(info%field_storages, storages, [info%field_count])
    call c_f_pointer(info%field_axes, axes, [info%field_count])
    do axis = 1, 3
      if (.not. btest(axes(number), axis - 1)) field%c%extent(axis) = 1
    end do
    status = allocate_field(storages(number), low, high, field)
  end function

  !> Takes `steps` steps of a system, one if absent. `fields` are all fields in the order of the spec. `outputs` are as many second
  !> buffers: of fields that need one (SPIDER_FIELD_TWO_BUFFERS), the others never created; absent if none does. A result in a
  !> second buffer swaps its memory with the field. The last step adds its points to `reductions`.
  integer(c_int32_t) function spider_system_run(kernel, fields, stream, outputs, scalars, steps, reductions) result(status)
    type(c_ptr), intent(in) :: kernel, stream
    type(spider_owned_field), intent(inout), target :: fields(:)
    type(spider_owned_field), intent(inout), target, optional :: outputs(:)
    real(c_double), intent(in), target, contiguous, optional :: scalars(:)
    integer, intent(in), optional :: steps
    type(c_ptr), intent(in), optional :: reductions
    type(c_ptr), target :: addresses(most_fields), seconds(most_fields)
    type(spider_sweep) :: sweep
    type(c_ptr) :: last
    integer(c_int64_t) :: count
    status = fill_system(kernel, fields, stream, sweep, addresses, seconds, outputs, scalars)
    if (status /= SPIDER_OK) return
    if (present(reductions)) sweep%reductions = reductions
    count = 1
    if (present(steps)) count = steps
    status = spider_run_steps(kernel, sweep, count, last)
    if (status == SPIDER_OK) call exchange_results(kernel, fields, count, outputs)
  end function

  !> The same until number `reduction` of the spec's `reduce`, from 1, is at most `bound`: at most `steps` steps. Every
  !> `check_every`th step and the last compute the numbers and are waited for. `done` becomes the number of steps taken, `values`
  !> the numbers of the last one.
  integer(c_int32_t) function spider_system_run_until(kernel, fields, stream, reductions, reduction, bound, steps, check_every, &
    done, values, outputs, scalars) result(status)
    type(c_ptr), intent(in) :: kernel, stream, reductions
    type(spider_owned_field), intent(inout), target :: fields(:)
    integer, intent(in) :: reduction, steps, check_every
    real(c_double), intent(in) :: bound
    integer, intent(out) :: done
    real(c_double), intent(out) :: values(:)
    type(spider_owned_field), intent(inout), target, optional :: outputs(:)
    real(c_double), intent(in), target, contiguous, optional :: scalars(:)
    type(c_ptr), target :: addresses(most_fields), seconds(most_fields)
    type(spider_kernel_info) :: info
    type(spider_sweep) :: sweep
    real(c_double), allocatable :: numbers(:)
    integer(c_int64_t) :: taken
    done = 0
    status = fill_system(kernel, fields, stream, sweep, addresses, seconds, outputs, scalars)
    if (status == SPIDER_OK) status = spider_get_info(kernel, info)
    if (status /= SPIDER_OK) return
    status = SPIDER_ERROR_UNSUPPORTED
    if (size(values) /= info%reduction_count) return
    sweep%reductions = reductions
    allocate (numbers(size(values)), source=0.0_c_double)
    status = spider_run_until(kernel, sweep, int(steps, c_int64_t), int(reduction - 1, c_int32_t), bound, &
                              int(check_every, c_int64_t), taken, numbers)
    done = int(taken)
    values = numbers
    call exchange_results(kernel, fields, taken, outputs)  ! also of steps before one that failed
  end function

  !> The arguments of spider_run for a system. The actual arguments, `addresses` and `seconds` outlive the sweep.
  integer(c_int32_t) function fill_system(kernel, fields, stream, sweep, addresses, seconds, outputs, scalars) result(status)
    type(c_ptr), intent(in) :: kernel, stream
    type(spider_owned_field), intent(in), target :: fields(:)
    type(spider_sweep), intent(out) :: sweep
    type(c_ptr), intent(out), target :: addresses(most_fields), seconds(most_fields)
    type(spider_owned_field), intent(in), target, optional :: outputs(:)
    real(c_double), intent(in), target, contiguous, optional :: scalars(:)
    type(spider_kernel_info) :: info
    integer(c_int32_t), pointer :: storages(:)
    integer :: i
    addresses = c_null_ptr
    seconds = c_null_ptr
    status = spider_get_info(kernel, info)
    if (status /= SPIDER_OK) return
    status = SPIDER_ERROR_UNSUPPORTED
    if (info%launch_count == 0 .or. size(fields) /= info%field_count) return
    i = 0
    if (present(scalars)) i = size(scalars)
    if (i /= info%scalar_count) return
    if (present(outputs)) then
      if (size(outputs) /= size(fields)) return
    end if
    call c_f_pointer(info%field_storages, storages, [info%field_count])
    do i = 1, size(fields)
      if (fields(i)%storage /= storages(i)) return
      addresses(i) = c_loc(fields(i)%c)
      if (.not. present(outputs)) cycle
      if (.not. c_associated(outputs(i)%memory)) cycle
      if (outputs(i)%storage /= storages(i)) return
      seconds(i) = c_loc(outputs(i)%c)
    end do
    sweep%size = int(storage_size(sweep) / 8, c_int32_t)
    sweep%fields = c_loc(addresses)
    sweep%outputs = c_loc(seconds)
    sweep%stream = stream
    if (info%scalar_count > 0) sweep%scalars = c_loc(scalars)
    status = SPIDER_OK
  end function

  !> After an odd number of steps: results in second buffers swap their memory with the fields.
  subroutine exchange_results(kernel, fields, steps, outputs)
    type(c_ptr), intent(in) :: kernel
    type(spider_owned_field), intent(inout) :: fields(:)
    integer(c_int64_t), intent(in) :: steps
    type(spider_owned_field), intent(inout), optional :: outputs(:)
    type(spider_kernel_info) :: info
    integer(c_int32_t), pointer :: uses(:)
    integer :: i
    if (modulo(steps, 2_c_int64_t) == 0 .or. .not. present(outputs)) return
    if (spider_get_info(kernel, info) /= SPIDER_OK) return
    call c_f_pointer(info%field_uses, uses, [info%field_count])
    do i = 1, size(fields)
      if (iand(uses(i), SPIDER_FIELD_RESULT_IN_OUTPUT) /= 0) call exchange(fields(i), outputs(i))
    end do
  end subroutine

  !> A field without a halo, of any storage and 1 to 3 axes: further fields of an update, and values of points, one row a step. If
  !> sweeps of an update have several steps and `halo` faces, further fields need a halo: spider_field_create makes it, in the
  !> kernel's storage.
  integer(c_int32_t) function spider_field_allocate(storage, extents, field) result(status)
    integer(c_int32_t), intent(in) :: storage
    integer, intent(in) :: extents(:)
    type(spider_owned_field), intent(out) :: field
    status = SPIDER_ERROR_EXTENT
    if (size(extents) < 1 .or. size(extents) > 3 .or. any(extents < 0)) return
    field%c%extent(4 - size(extents):) = extents(size(extents):1:-1)
    status = allocate_field(storage, [0_c_int64_t, 0_c_int64_t, 0_c_int64_t], [0_c_int64_t, 0_c_int64_t, 0_c_int64_t], field)
  end function

  !> Memory for a field of known extents and halo, zero-initialised.
  integer(c_int32_t) function allocate_field(storage, halo_low, high, field) result(status)
    integer(c_int32_t), intent(in) :: storage
    integer(c_int64_t), intent(in) :: halo_low(3), high(3)
    type(spider_owned_field), intent(inout) :: field
    integer(c_int64_t) :: per_alignment, low(3), padded(3), elements, origin
    field%storage = storage
    per_alignment = row_alignment / element_bytes(field)
    low = halo_low
    low(3) = round_up(low(3), per_alignment)  ! so that the interior, too, starts on 128 bytes
    padded = low + field%c%extent + high
    padded(3) = round_up(padded(3), per_alignment)
    field%c%stride = [padded(2) * padded(3), padded(3)]
    elements = product(padded)
    origin = low(1) * field%c%stride(1) + low(2) * field%c%stride(2) + low(3)

    status = spider_allocate(elements * element_bytes(field), field%memory)
    if (status /= SPIDER_OK) return
    field%c%data = moved(field%memory, origin * element_bytes(field))
    status = spider_clear(field%memory, elements * element_bytes(field))
  end function

  !> Releases the memory. A field that was never created is left alone.
  subroutine spider_field_destroy(field)
    type(spider_owned_field), intent(inout) :: field
    integer(c_int32_t) :: status
    status = spider_free(field%memory)
    field = spider_owned_field()
  end subroutine

  !> One sweep of a kernel of one or two dimensions over each plane of the fields, an image: one call for all. Their memory is that
  !> of spider_field_allocate; for kernels that read no halo.
  integer(c_int32_t) function spider_field_apply_images(kernel, in, out, stream) result(status)
    type(c_ptr), intent(in) :: kernel, stream
    type(spider_owned_field), intent(in), target :: in, out
    type(c_ptr), target :: addresses(most_fields)
    type(spider_kernel_info) :: info
    type(spider_owned_field), target :: first_in, first_out
    type(spider_sweep) :: sweep
    integer(c_int64_t) :: low(3), high(3)
    status = spider_get_info(kernel, info)
    if (status /= SPIDER_OK) return
    status = SPIDER_ERROR_EXTENT
    if (in%c%extent(1) /= out%c%extent(1)) return
    status = SPIDER_ERROR_UNSUPPORTED
    if (info%dimensions == 3) return
    first_in = in
    first_out = out
    first_in%c%extent(1) = 1
    first_out%c%extent(1) = 1
    status = spider_halo(kernel, first_in%c%extent, low, high)
    if (status /= SPIDER_OK) return
    if (any(low > 0) .or. any(high > 0)) status = SPIDER_ERROR_UNSUPPORTED
    if (status /= SPIDER_OK .or. in%c%extent(1) == 0) return
    status = fill_sweep(kernel, first_in, first_out, stream, sweep, addresses)
    if (status /= SPIDER_OK) return
    sweep%batch = in%c%extent(1)
    sweep%batch_stride = in%c%stride(1)
    sweep%out_batch_stride = out%c%stride(1)
    status = spider_run(kernel, sweep)
  end function

  !> Takes `steps` time steps from `a` to `b` and back; `in_b` tells whether `b` has the last one.
  integer(c_int32_t) function spider_field_iterate(kernel, a, b, steps, stream, in_b) result(status)
    type(c_ptr), intent(in) :: kernel, stream
    type(spider_owned_field), intent(in), target :: a, b
    integer, intent(in) :: steps
    logical, intent(out) :: in_b
    type(c_ptr) :: holder
    holder = c_null_ptr
    status = spider_iterate(kernel, a%c, b%c, int(steps, c_int64_t), stream, holder)
    in_b = c_associated(holder, c_loc(b%c))
  end function

  !> One sweep of a kernel with an update, with its arguments in the order of its spec. `out` may be `previous` or a field, but not
  !> with several steps; then, with `previous`, `out_previous` becomes the step before the last one.
  integer(c_int32_t) function spider_field_run(kernel, in, out, stream, previous, fields, scalars, out_previous) result(status)
    type(c_ptr), intent(in) :: kernel, stream
    type(spider_owned_field), intent(in), target :: in, out
    type(spider_owned_field), intent(in), target, optional :: previous, fields(:), out_previous
    real(c_double), intent(in), target, contiguous, optional :: scalars(:)
    type(c_ptr), target :: addresses(most_fields)
    type(spider_sweep) :: sweep
    status = fill_sweep(kernel, in, out, stream, sweep, addresses, previous, fields, scalars, out_previous)
    if (status == SPIDER_OK) status = spider_run(kernel, sweep)
  end function

  !> Takes `steps` time steps: `u` becomes the last one, and `previous` the one before. The memory of the fields takes turns. With
  !> `previous`, `out` may be absent, which saves a field; one of them must be present. With `out_previous`, and so `out` and
  !> `previous`, it makes sweeps of the kernel's several steps.
  integer(c_int32_t) function spider_field_run_steps(kernel, u, steps, stream, out, previous, fields, scalars, out_previous) &
    result(status)
    type(c_ptr), intent(in) :: kernel, stream
    type(spider_owned_field), intent(inout), target :: u
    integer, intent(in) :: steps
    type(spider_owned_field), intent(inout), target, optional :: out, previous, out_previous
    type(spider_owned_field), intent(in), target, optional :: fields(:)
    real(c_double), intent(in), target, contiguous, optional :: scalars(:)
    type(c_ptr), target :: addresses(most_fields)
    type(c_ptr) :: last
    type(spider_sweep) :: sweep
    status = SPIDER_ERROR_NULL
    last = c_null_ptr
    if (present(out)) then
      status = fill_sweep(kernel, u, out, stream, sweep, addresses, previous, fields, scalars, out_previous)
    else if (present(previous)) then
      status = fill_sweep(kernel, u, previous, stream, sweep, addresses, previous, fields, scalars)
    end if
    if (status /= SPIDER_OK) return
    status = spider_run_steps(kernel, sweep, int(steps, c_int64_t), last)
    if (status /= SPIDER_OK .or. c_associated(last, c_loc(u%c))) return
    if (present(out_previous)) then
      if (.not. c_associated(last, c_loc(previous%c))) then  ! the other pair has the last steps
        call exchange(u, out)
        call exchange(previous, out_previous)
      end if
      if (c_associated(last, c_loc(previous%c)) .or. c_associated(last, c_loc(out_previous%c))) call exchange(u, previous)
    else if (.not. present(previous)) then
      call exchange(u, out)
    else if (.not. present(out)) then
      call exchange(u, previous)
    else if (c_associated(last, c_loc(out%c))) then  ! u is the step before it
      call exchange(previous, out)
      call exchange(u, previous)
    else                                             ! out is
      call exchange(u, previous)
      call exchange(previous, out)
    end if
  end function

  !> The arguments of spider_run. The actual arguments, and `addresses`, outlive the sweep. The C interface can check neither their
  !> number nor their type.
  integer(c_int32_t) function fill_sweep(kernel, in, out, stream, sweep, addresses, previous, fields, scalars, out_previous) &
    result(status)
    type(c_ptr), intent(in) :: kernel, stream
    type(spider_owned_field), intent(in), target :: in, out
    type(spider_sweep), intent(out) :: sweep
    type(c_ptr), intent(out), target :: addresses(most_fields)
    type(spider_owned_field), intent(in), target, optional :: previous, fields(:), out_previous
    real(c_double), intent(in), target, contiguous, optional :: scalars(:)
    type(spider_kernel_info) :: info
    integer(c_int32_t), pointer :: storages(:)
    integer :: i, field_count, scalar_count
    status = spider_get_info(kernel, info)
    if (status /= SPIDER_OK) return
    field_count = 0
    scalar_count = 0
    if (present(fields)) field_count = size(fields)
    if (present(scalars)) scalar_count = size(scalars)
    status = SPIDER_ERROR_UNSUPPORTED
    if (field_count /= info%field_count .or. scalar_count /= info%scalar_count) return
    if (in%storage /= info%storage .or. out%storage /= info%output) return
    if (present(previous)) then
      if (previous%storage /= info%storage) return
      sweep%previous = c_loc(previous%c)
    end if
    if (present(out_previous)) then
      if (.not. present(previous)) return
      if (out_previous%storage /= info%storage) return
      sweep%out_previous = c_loc(out_previous%c)
    end if
    sweep%size = int(storage_size(sweep) / 8, c_int32_t)
    sweep%in = c_loc(in%c)
    sweep%out = c_loc(out%c)
    sweep%stream = stream
    addresses = c_null_ptr
    if (field_count > 0) then
      call c_f_pointer(info%field_storages, storages, [field_count])
      do i = 1, field_count
        if (fields(i)%storage /= storages(i)) return
        addresses(i) = c_loc(fields(i)%c)
      end do
      sweep%fields = c_loc(addresses)
    end if
    if (scalar_count > 0) sweep%scalars = c_loc(scalars)
    status = SPIDER_OK
  end function

  subroutine exchange(a, b)
    type(spider_owned_field), intent(inout) :: a, b
    type(spider_owned_field) :: kept
    kept = a
    a = b
    b = kept
  end subroutine

  !> Sources and receivers in fields like `field`: cells(:, i) is [x, y, z] of point i, from 1, as many as the field has axes.
  !> `spider_points_free` releases them. For a system they belong to field `number`, from 1.
  integer(c_int32_t) function spider_field_points(kernel, field, cells, points, number) result(status)
    type(c_ptr), intent(in) :: kernel
    type(spider_owned_field), intent(in) :: field
    integer, intent(in) :: cells(:, :)
    type(c_ptr), intent(out) :: points
    integer, intent(in), optional :: number
    integer(c_int64_t) :: places(3, size(cells, 2))
    type(spider_kernel_info) :: info
    points = c_null_ptr
    status = spider_get_info(kernel, info)
    if (status /= SPIDER_OK) return
    status = SPIDER_ERROR_EXTENT
    if (size(cells, 1) /= info%dimensions) return
    places = 0
    places(4 - size(cells, 1):, :) = cells(size(cells, 1):1:-1, :) - 1
    if (present(number)) then
      status = spider_points_create_of_field(kernel, int(number - 1, c_int32_t), field%c%extent, places, &
                                             size(cells, 2, c_int64_t), points)
    else
      status = spider_points_create(kernel, field%c%extent, places, size(cells, 2, c_int64_t), points)
    end if
  end function

  !> The begin of row `row` of a field, from 1: values for `spider_points_add` and `spider_points_read`. Null if it does not exist.
  type(c_ptr) function spider_field_row(field, row) result(address)
    type(spider_owned_field), intent(in) :: field
    integer, intent(in) :: row
    address = c_null_ptr
    if (row >= 1 .and. row <= field%c%extent(2)) &
      address = moved(field%c%data, (row - 1) * field%c%stride(2) * element_bytes(field))
  end function

  integer(c_int32_t) function set_1d(field, values) result(status)
    type(spider_owned_field), intent(in) :: field
    real(c_float), intent(in) :: values(:)
    status = set(field, size(values), 1, 1, values)
  end function

  integer(c_int32_t) function set_2d(field, values) result(status)
    type(spider_owned_field), intent(in) :: field
    real(c_float), intent(in) :: values(:, :)
    status = set(field, size(values, 1), size(values, 2), 1, values)
  end function

  integer(c_int32_t) function set_3d(field, values) result(status)
    type(spider_owned_field), intent(in) :: field
    real(c_float), intent(in) :: values(:, :, :)
    status = set(field, size(values, 1), size(values, 2), size(values, 3), values)
  end function

  integer(c_int32_t) function get_1d(field, values) result(status)
    type(spider_owned_field), intent(in) :: field
    real(c_float), intent(out) :: values(:)
    status = get(field, size(values), 1, 1, values)
  end function

  integer(c_int32_t) function get_2d(field, values) result(status)
    type(spider_owned_field), intent(in) :: field
    real(c_float), intent(out) :: values(:, :)
    status = get(field, size(values, 1), size(values, 2), 1, values)
  end function

  integer(c_int32_t) function get_3d(field, values) result(status)
    type(spider_owned_field), intent(in) :: field
    real(c_float), intent(out) :: values(:, :, :)
    status = get(field, size(values, 1), size(values, 2), size(values, 3), values)
  end function

  integer(c_int32_t) function set_1d_double(field, values) result(status)
    type(spider_owned_field), intent(in) :: field
    real(c_double), intent(in) :: values(:)
    status = set_double(field, size(values), 1, 1, values)
  end function

  integer(c_int32_t) function set_2d_double(field, values) result(status)
    type(spider_owned_field), intent(in) :: field
    real(c_double), intent(in) :: values(:, :)
    status = set_double(field, size(values, 1), size(values, 2), 1, values)
  end function

  integer(c_int32_t) function set_3d_double(field, values) result(status)
    type(spider_owned_field), intent(in) :: field
    real(c_double), intent(in) :: values(:, :, :)
    status = set_double(field, size(values, 1), size(values, 2), size(values, 3), values)
  end function

  integer(c_int32_t) function get_1d_double(field, values) result(status)
    type(spider_owned_field), intent(in) :: field
    real(c_double), intent(out) :: values(:)
    status = get_double(field, size(values), 1, 1, values)
  end function

  integer(c_int32_t) function get_2d_double(field, values) result(status)
    type(spider_owned_field), intent(in) :: field
    real(c_double), intent(out) :: values(:, :)
    status = get_double(field, size(values, 1), size(values, 2), 1, values)
  end function

  integer(c_int32_t) function get_3d_double(field, values) result(status)
    type(spider_owned_field), intent(in) :: field
    real(c_double), intent(out) :: values(:, :, :)
    status = get_double(field, size(values, 1), size(values, 2), size(values, 3), values)
  end function

  recursive integer(c_int32_t) function set(field, columns, rows, planes, values) result(status)
    type(spider_owned_field), intent(in) :: field
    integer, intent(in) :: columns, rows, planes
    real(c_float), intent(in), target :: values(columns, rows, planes)
    integer(c_int16_t), allocatable, target :: bits(:, :, :)
    integer(c_int8_t), allocatable, target :: bytes(:, :, :)
    status = SPIDER_ERROR_EXTENT
    if (any(field%c%extent /= [planes, rows, columns])) return
    select case (field%storage)
    case (SPIDER_F32)
      status = copy(field, c_loc(values), .true.)
    case (SPIDER_F64)
      status = set_double(field, columns, rows, planes, real(values, c_double))
    case (SPIDER_F16)
      bits = spider_to_f16(values)
      status = copy(field, c_loc(bits), .true.)
    case (SPIDER_U8)
      bytes = int(wrapped(whole(values, 0, 255), 256), c_int8_t)
      status = copy(field, c_loc(bytes), .true.)
    case (SPIDER_U16)
      bits = int(wrapped(whole(values, 0, 65535), 65536), c_int16_t)
      status = copy(field, c_loc(bits), .true.)
    case (SPIDER_I16)
      bits = int(whole(values, -32768, 32767), c_int16_t)
      status = copy(field, c_loc(bits), .true.)
    case default
      bits = spider_to_bf16(values)
      status = copy(field, c_loc(bits), .true.)
    end select
  end function

  !> The whole number nearest to a value within the bounds; ties go to even.
  elemental integer function whole(value, least, most)
    real(c_float), intent(in) :: value
    integer, intent(in) :: least, most
    real(c_float) :: within, part
    within = min(max(value, real(least, c_float)), real(most, c_float))
    whole = nint(within)
    part = abs(within - aint(within))
    if (part >= 0.5 .and. part <= 0.5 .and. modulo(whole, 2) /= 0) &
      whole = whole - int(sign(1.0, within))
  end function

  !> A number from 0 to before `range` as the signed number with the same bits.
  elemental integer function wrapped(number, range)
    integer, intent(in) :: number, range
    wrapped = merge(number - range, number, number >= range / 2)
  end function

  recursive integer(c_int32_t) function get(field, columns, rows, planes, values) result(status)
    type(spider_owned_field), intent(in) :: field
    integer, intent(in) :: columns, rows, planes
    real(c_float), intent(out), target :: values(columns, rows, planes)
    integer(c_int16_t), allocatable, target :: bits(:, :, :)
    integer(c_int8_t), allocatable, target :: bytes(:, :, :)
    real(c_double), allocatable :: doubles(:, :, :)
    status = SPIDER_ERROR_EXTENT
    if (any(field%c%extent /= [planes, rows, columns])) return
    if (field%storage == SPIDER_U8) then
      allocate (bytes(columns, rows, planes))
      status = copy(field, c_loc(bytes), .false.)
      if (status == SPIDER_OK) values = real(modulo(int(bytes), 256), c_float)
      return
    end if
    if (field%storage == SPIDER_F32) then
      status = copy(field, c_loc(values), .false.)
      return
    else if (field%storage == SPIDER_F64) then
      allocate (doubles(columns, rows, planes))
      status = get_double(field, columns, rows, planes, doubles)
      if (status == SPIDER_OK) values = real(doubles, c_float)
      return
    end if
    allocate (bits(columns, rows, planes))
    status = copy(field, c_loc(bits), .false.)
    if (status /= SPIDER_OK) return
    if (field%storage == SPIDER_F16) values = spider_from_f16(bits)
    if (field%storage == SPIDER_BF16) values = spider_from_bf16(bits)
    if (field%storage == SPIDER_U16) values = real(modulo(int(bits), 65536), c_float)
    if (field%storage == SPIDER_I16) values = real(bits, c_float)
  end function

  recursive integer(c_int32_t) function set_double(field, columns, rows, planes, values) result(status)
    type(spider_owned_field), intent(in) :: field
    integer, intent(in) :: columns, rows, planes
    real(c_double), intent(in), target :: values(columns, rows, planes)
    status = SPIDER_ERROR_EXTENT
    if (any(field%c%extent /= [planes, rows, columns])) return
    if (field%storage == SPIDER_F64) then
      status = copy(field, c_loc(values), .true.)
    else
      status = set(field, columns, rows, planes, real(values, c_float))
    end if
  end function

  recursive integer(c_int32_t) function get_double(field, columns, rows, planes, values) result(status)
    type(spider_owned_field), intent(in) :: field
    integer, intent(in) :: columns, rows, planes
    real(c_double), intent(out), target :: values(columns, rows, planes)
    real(c_float), allocatable :: singles(:, :, :)
    status = SPIDER_ERROR_EXTENT
    if (any(field%c%extent /= [planes, rows, columns])) return
    if (field%storage == SPIDER_F64) then
      status = copy(field, c_loc(values), .false.)
      return
    end if
    allocate (singles(columns, rows, planes))
    status = get(field, columns, rows, planes, singles)
    if (status == SPIDER_OK) values = singles
  end function

  !> Copies the interior from or to an array without gaps on the host, a plane at a time.
  integer(c_int32_t) function copy(field, host, to_field) result(status)
    type(spider_owned_field), intent(in) :: field
    type(c_ptr), intent(in) :: host
    logical, intent(in) :: to_field
    integer(c_int64_t) :: plane, pitch, width
    type(c_ptr) :: in_field, in_array
    pitch = field%c%stride(2) * element_bytes(field)
    width = field%c%extent(3) * element_bytes(field)
    status = SPIDER_OK
    do plane = 0, field%c%extent(1) - 1
      in_field = moved(field%c%data, plane * field%c%stride(1) * element_bytes(field))
      in_array = moved(host, plane * field%c%extent(2) * width)
      if (to_field) then
        status = spider_upload(in_field, pitch, in_array, width, width, field%c%extent(2))
      else
        status = spider_download(in_array, width, in_field, pitch, width, field%c%extent(2))
      end if
      if (status /= SPIDER_OK) return
    end do
  end function

  pure integer(c_int64_t) function element_bytes(field)
    type(spider_owned_field), intent(in) :: field
    element_bytes = merge(4_c_int64_t, 2_c_int64_t, field%storage == SPIDER_F32)
    if (field%storage == SPIDER_F64) element_bytes = 8
    if (field%storage == SPIDER_U8) element_bytes = 1
  end function

  pure integer(c_int64_t) function round_up(number, multiple)
    integer(c_int64_t), intent(in) :: number, multiple
    round_up = (number + multiple - 1) / multiple * multiple
  end function

  !> The address `bytes` further on.
  pure type(c_ptr) function moved(address, bytes)
    type(c_ptr), intent(in) :: address
    integer(c_int64_t), intent(in) :: bytes
    moved = transfer(transfer(address, 0_c_intptr_t) + bytes, c_null_ptr)
  end function

  !> The bits of the f16 nearest to `value`, ties to even: infinity from 65520 on, subnormal below 2^-14.
  elemental integer(c_int16_t) function spider_to_f16(value) result(bits)
    real(c_float), intent(in) :: value
    integer(c_int32_t) :: magnitude
    magnitude = ibclr(transfer(value, 0_c_int32_t), 31)
    if (magnitude > int(z'7F800000', c_int32_t)) then       ! NaN
      magnitude = int(z'7E00', c_int32_t)
    else if (magnitude >= int(z'477FF000', c_int32_t)) then  ! 65520, halfway to 65536
      magnitude = int(z'7C00', c_int32_t)
    else if (magnitude >= int(z'38800000', c_int32_t)) then  ! 2^-14; exponents differ by 127 - 15
      magnitude = to_nearest_even(magnitude - ishft(112_c_int32_t, 23), 13)
    else                                                     ! numbers around 0.5 are 2^-24 apart, as small f16 are
      magnitude = transfer(abs(value) + 0.5_c_float, 0_c_int32_t) - transfer(0.5_c_float, 0_c_int32_t)
    end if
    bits = with_sign(magnitude, value)
  end function

  elemental real(c_float) function spider_from_f16(bits) result(value)
    integer(c_int16_t), intent(in) :: bits
    integer(c_int32_t) :: exponent_bits, fraction_bits, wide
    exponent_bits = ibits(int(bits, c_int32_t), 10, 5)
    fraction_bits = ibits(int(bits, c_int32_t), 0, 10)
    if (exponent_bits == 0) then
      value = real(fraction_bits, c_float) * 2.0_c_float**(-24)
    else
      wide = merge(255_c_int32_t, exponent_bits + 112_c_int32_t, exponent_bits == 31)
      value = transfer(ior(ishft(wide, 23), ishft(fraction_bits, 13)), 0.0_c_float)
    end if
    if (bits < 0) value = -value
  end function

  !> The bits of the bf16 nearest to `value`, ties to even.
  elemental integer(c_int16_t) function spider_to_bf16(value) result(bits)
    real(c_float), intent(in) :: value
    integer(c_int32_t) :: magnitude
    magnitude = ibclr(transfer(value, 0_c_int32_t), 31)
    if (magnitude > int(z'7F800000', c_int32_t)) then
      magnitude = int(z'7FC0', c_int32_t)
    else
      magnitude = to_nearest_even(magnitude, 16)
    end if
    bits = with_sign(magnitude, value)
  end function

  elemental real(c_float) function spider_from_bf16(bits) result(value)
    integer(c_int16_t), intent(in) :: bits
    value = transfer(ishft(int(bits, c_int32_t), 16), 0.0_c_float)
  end function

  !> number / 2^shift, rounded to the nearest integer, ties to even.
  elemental integer(c_int32_t) function to_nearest_even(number, shift)
    integer(c_int32_t), intent(in) :: number
    integer, intent(in) :: shift
    to_nearest_even = ishft(number + ishft(1_c_int32_t, shift - 1) - 1 + ibits(number, shift, 1), -shift)
  end function

  !> 15 bits, and the sign of `value` above them.
  elemental integer(c_int16_t) function with_sign(magnitude, value)
    integer(c_int32_t), intent(in) :: magnitude
    real(c_float), intent(in) :: value
    with_sign = int(merge(magnitude - 32768, magnitude, btest(transfer(value, 0_c_int32_t), 31)), c_int16_t)
  end function
end module
