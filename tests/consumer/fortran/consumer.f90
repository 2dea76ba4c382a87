!> Calls generated kernels of f16, bf16, f32 and f64 from Fortran and compares with plain loops.
!>
!> An array here is a(columns, rows): Fortran's first index is x, the fast one, which specs and C name last.
program consumer
  use, intrinsic :: iso_c_binding
  use, intrinsic :: ieee_arithmetic, only: ieee_is_nan
  use spider
  implicit none

  interface
    function diffusion_kernel() bind(c) result(kernel)
      import :: c_ptr
      type(c_ptr) :: kernel
    end function
    function fine_kernel() bind(c) result(kernel)
      import :: c_ptr
      type(c_ptr) :: kernel
    end function
    function relax3d_kernel() bind(c) result(kernel)
      import :: c_ptr
      type(c_ptr) :: kernel
    end function
    function settle_kernel() bind(c) result(kernel)
      import :: c_ptr
      type(c_ptr) :: kernel
    end function
    function shift_kernel() bind(c) result(kernel)
      import :: c_ptr
      type(c_ptr) :: kernel
    end function
    function membrane_kernel() bind(c) result(kernel)
      import :: c_ptr
      type(c_ptr) :: kernel
    end function
    function swing_kernel() bind(c) result(kernel)
      import :: c_ptr
      type(c_ptr) :: kernel
    end function
    function tilt_kernel() bind(c) result(kernel)
      import :: c_ptr
      type(c_ptr) :: kernel
    end function
    function tint_kernel() bind(c) result(kernel)
      import :: c_ptr
      type(c_ptr) :: kernel
    end function
  end interface

  integer, parameter :: columns = 133, rows = 37
  integer :: wrong

  wrong = wrong_conversions() + wrong_diffusion(3) + wrong_relaxation() + wrong_shift() + wrong_statuses() + wrong_swing() &
    + wrong_doubles() + wrong_membrane() + wrong_reductions() &
    + wrong_mean(tilt_kernel(), SPIDER_F32, [0.5, 0.1, 0.1, 0.2, 0.1], 1 / 7.0, 2.0**(-18)) &
    + wrong_mean(tint_kernel(), SPIDER_BF16, [0.5, 0.125, 0.0625, 0.25, 0.0625], 1.0, 2.0**(-8))
  if (wrong /= 0) error stop 'the results are wrong'

contains

  !> Time steps on fields that the module owns. Faces are `nearest`, so no halo is filled.
  integer function wrong_diffusion(steps) result(wrong)
    integer, intent(in) :: steps
    type(spider_owned_field) :: a, b
    real(c_float) :: values(columns, rows), expected(0:columns + 1, 0:rows + 1)
    integer :: x, y, step
    logical :: in_b

    do y = 1, rows
      do x = 1, columns
        values(x, y) = modulo(7 * y * y + 13 * x + x * y, 97)
      end do
    end do
    call require(spider_field_create(diffusion_kernel(), [columns, rows], a))
    call require(spider_field_create(diffusion_kernel(), [columns, rows], b))
    call require(spider_field_set(a, values))
    call require(spider_field_iterate(diffusion_kernel(), a, b, steps, c_null_ptr, in_b))

    expected(1:columns, 1:rows) = values
    do step = 1, steps
      expected(0, :) = expected(1, :)
      expected(columns + 1, :) = expected(columns, :)
      expected(:, 0) = expected(:, 1)
      expected(:, rows + 1) = expected(:, rows)
      expected(1:columns, 1:rows) = (expected(1:columns, 1:rows) + expected(0:columns - 1, 1:rows) &
        + expected(2:columns + 1, 1:rows)) / 4 + (expected(1:columns, 0:rows - 1) + expected(1:columns, 2:rows + 1)) / 8
    end do

    if (in_b) then
      call require(spider_field_get(b, values))
    else
      call require(spider_field_get(a, values))
    end if
    ! Every sweep rounds to f16, within 2^-11 of the value, and hands on what it was given.
    wrong = count(abs(values - expected(1:columns, 1:rows)) > steps * expected(1:columns, 1:rows) / 2048)
    print '(a, i0, a)', 'diffusion: ', wrong, ' cells wrong'
    call spider_field_destroy(a)
    call spider_field_destroy(b)
  end function

  !> One sweep on fields of another storage. Weights: of the point, and of those above, below, left and right of it.
  integer function wrong_mean(kernel, storage, weights, unit, part) result(wrong)
    type(c_ptr), intent(in) :: kernel
    integer(c_int32_t), intent(in) :: storage
    real, intent(in) :: weights(5), unit, part
    type(spider_kernel_info) :: info
    type(spider_owned_field) :: in, out
    real(c_float) :: p(0:columns + 1, 0:rows + 1), values(columns, rows)
    real(c_double) :: expected(columns, rows), q(0:columns + 1, 0:rows + 1)
    integer :: x, y
    call require(spider_get_info(kernel, info))
    do y = 1, rows
      do x = 1, columns
        p(x, y) = unit * (1 + modulo(7 * y * y + 13 * x + x * y, 97))
      end do
    end do
    p(0, :) = p(1, :)
    p(columns + 1, :) = p(columns, :)
    p(:, 0) = p(:, 1)
    p(:, rows + 1) = p(:, rows)
    q = p
    expected = weights(1) * q(1:columns, 1:rows) + weights(2) * q(1:columns, 0:rows - 1) &
      + weights(3) * q(1:columns, 2:rows + 1) + weights(4) * q(0:columns - 1, 1:rows) + weights(5) * q(2:columns + 1, 1:rows)

    call require(spider_field_create(kernel, [columns, rows], in))
    call require(spider_field_create(kernel, [columns, rows], out))
    call require(spider_field_set(in, p(1:columns, 1:rows)))
    call require(spider_apply(kernel, in%c, out%c, c_null_ptr))
    call require(spider_synchronize(c_null_ptr))
    call require(spider_field_get(out, values))
    wrong = count(abs(values - expected) > part * expected)
    if (info%storage /= storage) wrong = wrong + 1
    print '(2a, i0, a)', spider_string(info%name), ': ', wrong, ' cells wrong'
    call spider_field_destroy(in)
    call spider_field_destroy(out)
  end function

  !> The same of doubles: reals that no default real holds come back as they are, and default reals are taken, too.
  integer function wrong_doubles() result(wrong)
    type(spider_owned_field) :: in, out
    real(c_double) :: p(0:columns + 1, 0:rows + 1), values(columns, rows), expected(columns, rows)
    real(c_float) :: rounded(columns, rows)
    integer :: x, y
    do y = 1, rows
      do x = 1, columns
        p(x, y) = (1 + modulo(7 * y * y + 13 * x + x * y, 97)) / 7.0_c_double
      end do
    end do
    p(0, :) = p(1, :)
    p(columns + 1, :) = p(columns, :)
    p(:, 0) = p(:, 1)
    p(:, rows + 1) = p(:, rows)
    expected = 0.5_c_double * p(1:columns, 1:rows) + 0.1_c_double * (p(1:columns, 0:rows - 1) + p(1:columns, 2:rows + 1)) &
      + 0.2_c_double * p(0:columns - 1, 1:rows) + 0.1_c_double * p(2:columns + 1, 1:rows)
    call require(spider_field_create(fine_kernel(), [columns, rows], in))
    call require(spider_field_create(fine_kernel(), [columns, rows], out))
    call require(spider_field_set(in, p(1:columns, 1:rows)))
    call require(spider_field_get(in, values))
    wrong = count(abs(values - p(1:columns, 1:rows)) > 0)
    call require(spider_apply(fine_kernel(), in%c, out%c, c_null_ptr))
    call require(spider_synchronize(c_null_ptr))
    call require(spider_field_get(out, values))
    wrong = wrong + count(abs(values - expected) > 2.0_c_double**(-48) * expected)
    rounded = real(p(1:columns, 1:rows), c_float)
    call require(spider_field_set(in, rounded))
    call require(spider_field_get(in, values))
    wrong = wrong + count(abs(values - rounded) > 0)
    call require(spider_field_get(in, rounded))
    wrong = wrong + count(abs(values - rounded) > 0)
    print '(a, i0, a)', 'fine: ', wrong, ' cells wrong'
    call spider_field_destroy(in)
    call spider_field_destroy(out)
  end function

  !> One sweep in three dimensions: a(columns, rows, planes).
  integer function wrong_relaxation() result(wrong)
    integer, parameter :: nx = 45, ny = 11, nz = 7
    type(spider_owned_field) :: in, out
    real(c_float) :: p(0:nx + 1, 0:ny + 1, 0:nz + 1), values(nx, ny, nz), expected(nx, ny, nz)
    integer :: x, y, z
    do z = 1, nz
      do y = 1, ny
        do x = 1, nx
          p(x, y, z) = modulo(7 * z * z + 13 * x + x * y, 97)
        end do
      end do
    end do
    p(0, :, :) = p(1, :, :)
    p(nx + 1, :, :) = p(nx, :, :)
    p(:, 0, :) = p(:, 1, :)
    p(:, ny + 1, :) = p(:, ny, :)
    p(:, :, 0) = p(:, :, 1)
    p(:, :, nz + 1) = p(:, :, nz)
    expected = p(1:nx, 1:ny, 1:nz) / 4 + p(1:nx, 1:ny, 0:nz - 1) / 8 + p(1:nx, 1:ny, 2:nz + 1) / 4 &
      + p(1:nx, 0:ny - 1, 1:nz) / 8 + p(1:nx, 2:ny + 1, 1:nz) / 16 + p(0:nx - 1, 1:ny, 1:nz) / 8 &
      + p(2:nx + 1, 1:ny, 1:nz) / 16

    call require(spider_field_create(relax3d_kernel(), [nx, ny, nz], in))
    call require(spider_field_create(relax3d_kernel(), [nx, ny, nz], out))
    call require(spider_field_set(in, p(1:nx, 1:ny, 1:nz)))
    call require(spider_apply(relax3d_kernel(), in%c, out%c, c_null_ptr))
    call require(spider_field_get(out, values))
    wrong = count(abs(values - expected) > expected / 2048)
    print '(a, i0, a)', 'relaxation in 3D: ', wrong, ' cells wrong'
    call spider_field_destroy(in)
    call spider_field_destroy(out)
  end function

  !> One sweep through the C interface, on memory of our own layout: rows of `pitch` elements, the halo among them. f16
  !> are 16-bit integers here.
  integer function wrong_shift() result(wrong)
    integer, parameter :: halo_rows = 1, halo_columns = 2, pitch = columns + halo_columns
    integer(c_int16_t), target :: host(pitch, rows + halo_rows), results(columns, rows)
    integer(c_int64_t), parameter :: bytes = 2_c_int64_t * pitch * (rows + halo_rows)
    type(c_ptr) :: in_memory, out_memory
    type(spider_field) :: in, out
    integer :: x, y

    do y = 1, rows + halo_rows
      do x = 1, pitch
        host(x, y) = spider_to_f16(real(x - 200 * y, c_float))
      end do
    end do
    call require(spider_allocate(bytes, in_memory))
    call require(spider_allocate(bytes, out_memory))
    call require(spider_upload(in_memory, bytes, c_loc(host), bytes, bytes, 1_c_int64_t))

    in%extent = [1, rows, columns]  ! z, y, x
    in%stride = [0, pitch]          ! elements from plane to plane, from row to row
    in%data = first_interior(in_memory, halo_rows * pitch + halo_columns)
    out%extent = in%extent
    out%stride = [0, columns]
    out%data = out_memory
    call require(spider_apply(shift_kernel(), in, out, c_null_ptr))
    call require(spider_synchronize(c_null_ptr))
    call require(spider_download(c_loc(results), 2_c_int64_t * columns, out_memory, 2_c_int64_t * columns, &
      2_c_int64_t * columns, int(rows, c_int64_t)))

    wrong = count(results /= host(1:columns, 1:rows))
    print '(a, i0, a)', 'shift: ', wrong, ' cells wrong'
    call require(spider_free(in_memory))
    call require(spider_free(out_memory))
  end function

  !> The address of the f16 that lies `elements` further.
  type(c_ptr) function first_interior(memory, elements)
    type(c_ptr), intent(in) :: memory
    integer, intent(in) :: elements
    first_interior = transfer(transfer(memory, 0_c_intptr_t) + 2 * elements, c_null_ptr)
  end function

  !> Steps of a kernel that takes three in a sweep, from two fields to two, are those that are taken one by one: all numbers
  !> are small multiples of 2^-9, so f32 holds them exactly.
  integer function wrong_membrane() result(wrong)
    real(c_double), parameter :: push(1) = [2.0_c_double]
    type(spider_owned_field) :: u, before, out, out_before, stiffness(1)
    type(c_ptr) :: kernel
    real(c_float) :: start(columns, rows), now(columns, rows), last(columns, rows)
    integer :: steps, x, y

    kernel = membrane_kernel()
    do y = 1, rows
      do x = 1, columns
        start(x, y) = modulo(7 * y * y + 13 * x + x * y, 17)
      end do
    end do
    call require(spider_field_create(kernel, [columns, rows], u))
    call require(spider_field_create(kernel, [columns, rows], before))
    call require(spider_field_create(kernel, [columns, rows], out))
    call require(spider_field_create(kernel, [columns, rows], out_before))
    call require(spider_field_allocate(SPIDER_F16, [columns, rows], stiffness(1)))
    call require(spider_field_set(stiffness(1), 0 * start + 0.5))
    wrong = 0
    do steps = 0, 7
      call require(spider_field_set(u, start))
      call require(spider_field_set(before, 0.5 * start))
      call require(spider_field_run_steps(kernel, u, steps, c_null_ptr, previous=before, fields=stiffness, scalars=push))
      call require(spider_field_get(u, now))
      call require(spider_field_get(before, last))
      call require(spider_field_set(u, start))
      call require(spider_field_set(before, 0.5 * start))
      call require(spider_field_run_steps(kernel, u, steps, c_null_ptr, out=out, previous=before, fields=stiffness, &
        scalars=push, out_previous=out_before))
      wrong = wrong + differences(u, now) + differences(before, last)
      if (steps /= 3) cycle
      call require(spider_field_set(u, start))
      call require(spider_field_set(before, 0.5 * start))
      call require(spider_field_run(kernel, u, out, c_null_ptr, previous=before, fields=stiffness, scalars=push, &
        out_previous=out_before))
      wrong = wrong + differences(out, now) + differences(out_before, last)
    end do
    if (spider_field_run(kernel, u, out, c_null_ptr, previous=before, fields=stiffness, scalars=push) /= SPIDER_ERROR_NULL) &
      wrong = wrong + 1
    if (spider_field_run(kernel, u, out, c_null_ptr, fields=stiffness, scalars=push, out_previous=before) &
      /= SPIDER_ERROR_UNSUPPORTED) wrong = wrong + 1
    print '(a, i0, a)', 'membrane: ', wrong, ' cells wrong'
    call spider_field_destroy(u)
    call spider_field_destroy(before)
    call spider_field_destroy(out)
    call spider_field_destroy(out_before)
    call spider_field_destroy(stiffness(1))
  end function

  !> A kernel with an update: time steps on three fields and on two, single sweeps with a source and a line of receivers. All
  !> numbers are small multiples of 2^-8, so f32 holds them exactly.
  integer function wrong_swing() result(wrong)
    integer, parameter :: steps = 4
    real(c_double), parameter :: push(1) = [2.0_c_double]
    type(spider_owned_field) :: u, before, out, stiffness(1), values, trace
    type(c_ptr) :: kernel, source, line
    real(c_float) :: start(columns, rows), soft(columns, rows), now(columns, rows), last(columns, rows)
    real(c_float) :: added(2, steps), seen(columns, steps)
    integer :: step, x, y

    kernel = swing_kernel()
    do y = 1, rows
      do x = 1, columns
        start(x, y) = modulo(7 * y * y + 13 * x + x * y, 17)
        soft(x, y) = 0.25 * (1 + modulo(x + y, 2))
      end do
    end do
    call require(spider_field_create(kernel, [columns, rows], u))
    call require(spider_field_create(kernel, [columns, rows], before))
    call require(spider_field_create(kernel, [columns, rows], out))
    call require(spider_field_allocate(SPIDER_F16, [columns, rows], stiffness(1)))
    call require(spider_field_set(stiffness(1), soft))

    wrong = 0
    do step = 1, steps  ! any number of steps ends in u and before
      now = start
      last = 0
      do x = 1, step
        call swing(now, last, soft)
      end do
      call require(spider_field_set(u, start))
      call require(spider_field_set(before, 0 * start))
      call require(spider_field_run_steps(kernel, u, step, c_null_ptr, out=out, previous=before, fields=stiffness, scalars=push))
      wrong = wrong + differences(u, now) + differences(before, last)
      call require(spider_field_set(u, start))
      call require(spider_field_set(before, 0 * start))
      call require(spider_field_run_steps(kernel, u, step, c_null_ptr, previous=before, fields=stiffness, scalars=push))
      wrong = wrong + differences(u, now) + differences(before, last)
    end do

    ! A source of two values in one cell; receivers along the second row.
    added(1, :) = 1
    added(2, :) = 0.5
    call require(spider_field_allocate(SPIDER_F32, [2, steps], values))
    call require(spider_field_allocate(SPIDER_F32, [columns, steps], trace))
    call require(spider_field_set(values, added))
    call require(spider_field_points(kernel, u, reshape([5, 3, 5, 3], [2, 2]), source))
    call require(spider_field_points(kernel, u, reshape([(x, 2, x=1, columns)], [2, columns]), line))
    call require(spider_field_set(u, start))
    call require(spider_field_set(before, 0 * start))
    now = start
    last = 0
    do step = 1, steps
      call require(spider_field_run(kernel, u, out, c_null_ptr, previous=before, fields=stiffness, scalars=push))
      call require(spider_points_add(source, out%c, spider_field_row(values, step), c_null_ptr))
      call require(spider_points_read(line, out%c, spider_field_row(trace, step), c_null_ptr))
      call rotate(u, out, before)
      call swing(now, last, soft)
      now(5, 3) = now(5, 3) + 1.5
      if (step == steps) call require(spider_field_get(trace, seen))
    end do
    wrong = wrong + differences(u, now) + count(abs(seen(:, steps) - now(:, 2)) > 0) &
      + count(abs(seen(:, steps - 1) - last(:, 2)) > 0)

    ! What does not fit is refused.
    if (spider_field_run(kernel, u, out, c_null_ptr, previous=before, scalars=push) /= SPIDER_ERROR_UNSUPPORTED) wrong = wrong + 1
    if (spider_field_run(kernel, u, out, c_null_ptr, previous=before, fields=[u], scalars=push) /= SPIDER_ERROR_UNSUPPORTED) &
      wrong = wrong + 1
    if (spider_field_run(kernel, u, out, c_null_ptr, fields=stiffness, scalars=push) /= SPIDER_ERROR_NULL) wrong = wrong + 1
    if (spider_apply(kernel, u%c, out%c, c_null_ptr) /= SPIDER_ERROR_UNSUPPORTED) wrong = wrong + 1
    call require(spider_points_free(source))
    if (spider_field_points(kernel, u, reshape([1, rows + 1], [2, 1]), source) /= SPIDER_ERROR_EXTENT) wrong = wrong + 1
    if (index(spider_error(), 'point 0 has index 37 on axis y; it must be 0 to 36') == 0) wrong = wrong + 1
    print '(a, i0, a)', 'swing: ', wrong, ' cells wrong'
    call require(spider_points_free(line))
    call spider_field_destroy(u)
    call spider_field_destroy(before)
    call spider_field_destroy(out)
    call spider_field_destroy(stiffness(1))
    call spider_field_destroy(values)
    call spider_field_destroy(trace)
  end function

  !> One step of swing.yaml, in place.
  subroutine swing(now, last, soft)
    real(c_float), intent(inout) :: now(columns, rows), last(columns, rows)
    real(c_float), intent(in) :: soft(columns, rows)
    real(c_float) :: next(columns, rows)
    next = cshift(now, 1, 1) + cshift(now, -1, 1) - 4 * now
    next(:, 2:) = next(:, 2:) + now(:, :rows - 1)
    next(:, 1) = next(:, 1) + now(:, 1)
    next(:, :rows - 1) = next(:, :rows - 1) + now(:, 2:)
    next(:, rows) = next(:, rows) + now(:, rows)
    next = 2 * now - last + soft * next + 2
    last = now
    now = next
  end subroutine

  subroutine rotate(u, out, before)
    type(spider_owned_field), intent(inout) :: u, out, before
    type(spider_owned_field) :: kept
    kept = before
    before = u
    u = out
    out = kept
  end subroutine

  integer function differences(field, expected)
    type(spider_owned_field), intent(in) :: field
    real(c_float), intent(in) :: expected(columns, rows)
    real(c_float) :: values(columns, rows)
    call require(spider_synchronize(c_null_ptr))
    call require(spider_field_get(field, values))
    differences = count(abs(values - expected) > 0)
  end function

  !> Numbers of all points of a system: a sum that is exact, and steps until changes are small.
  integer function wrong_reductions() result(wrong)
    type(spider_owned_field) :: fields(1), seconds(1)
    type(c_ptr) :: reductions
    real(c_float) :: u(columns, rows), large(columns, rows), next(columns, rows)
    real(c_double) :: numbers(2), change
    integer :: x, y, steps, done
    do y = 1, rows
      do x = 1, columns
        u(x, y) = modulo(37 * x + 11 * y * y, 101)
      end do
    end do
    call require(spider_system_field(settle_kernel(), 1, shape(u), fields(1)))
    call require(spider_system_field(settle_kernel(), 1, shape(u), seconds(1)))
    call require(spider_reductions_create(settle_kernel(), reductions))
    large = u
    large(1, 1) = 2.0**100
    large(columns, rows) = -2.0**100
    call require(spider_field_set(fields(1), large))
    call require(spider_system_run(settle_kernel(), fields, c_null_ptr, seconds, [0.5_c_double], reductions=reductions))
    call require(spider_reductions_read(reductions, numbers, c_null_ptr))
    wrong = 0
    if (abs(numbers(2) - (sum(int(u)) - int(u(1, 1)) - int(u(columns, rows)))) > 0) wrong = wrong + 1

    call require(spider_field_set(fields(1), u))
    steps = 0
    do
      next = u + 0.5 * (cshift(u, 1) - u)
      change = maxval(abs(next - u))
      u = next
      steps = steps + 1
      if (change <= 9 .and. modulo(steps, 3) == 0) exit
    end do
    call require(spider_system_run_until(settle_kernel(), fields, c_null_ptr, reductions, 1, 9.0_c_double, 1000, 3, done, &
                                         numbers, seconds, [0.5_c_double]))
    if (done /= steps .or. abs(numbers(1) - change) > 0) wrong = wrong + 1
    wrong = wrong + differences(fields(1), u)
    if (spider_system_run_until(settle_kernel(), fields, c_null_ptr, reductions, 3, 9.0_c_double, 9, 3, done, numbers, &
                                seconds, [0.5_c_double]) /= SPIDER_ERROR_UNSUPPORTED) wrong = wrong + 1
    if (index(spider_error(), 'no reduction 2') == 0) wrong = wrong + 1
    call require(spider_reductions_free(reductions))
    call spider_field_destroy(fields(1))
    call spider_field_destroy(seconds(1))
    print '(a, i0, a)', 'reductions: ', wrong, ' wrong'
  end function

  !> Failures are statuses with words, and what a kernel says of itself is readable.
  integer function wrong_statuses() result(wrong)
    type(spider_kernel_info) :: info
    type(spider_owned_field) :: field
    wrong = 0
    call require(spider_get_info(shift_kernel(), info))
    if (spider_string(info%name) /= 'shift' .or. info%storage /= SPIDER_F16 .or. any(info%reach_low /= [0, 1, 2])) &
      wrong = wrong + 1
    if (spider_abi_version() /= SPIDER_ABI) wrong = wrong + 1
    if (spider_field_create(shift_kernel(), [columns], field) /= SPIDER_ERROR_EXTENT) wrong = wrong + 1
    if (spider_apply(shift_kernel(), field%c, field%c, c_null_ptr) == SPIDER_OK) wrong = wrong + 1
    if (index(spider_error(), 'spider_apply: ') /= 1) wrong = wrong + 1
    call spider_field_destroy(field)
    print '(a, i0, a)', 'statuses: ', wrong, ' wrong'
  end function

  !> Every 16-bit number survives the way to 32 bits and back; rounding is to nearest, ties to even.
  integer function wrong_conversions() result(wrong)
    integer :: i
    integer(c_int16_t) :: bits
    real(c_float) :: value
    wrong = 0
    do i = -32768, 32767
      bits = int(i, c_int16_t)
      value = spider_from_f16(bits)
      if (.not. ieee_is_nan(value) .and. spider_to_f16(value) /= bits) wrong = wrong + 1
      value = spider_from_bf16(bits)
      if (.not. ieee_is_nan(value) .and. spider_to_bf16(value) /= bits) wrong = wrong + 1
    end do
    wrong = wrong + count(spider_to_f16([65519.9, 65520.0, 2.0**(-25), 1.001 * 2.0**(-25), 1 + 2.0**(-11), &
      1 + 3 * 2.0**(-11), -2.0**(-14) + 2.0**(-25)]) /= &
      int([int(z'7BFF'), int(z'7C00'), 0, 1, int(z'3C00'), int(z'3C02'), int(z'0400') - 32768], c_int16_t))
    wrong = wrong + count(spider_to_bf16([1 + 2.0**(-8), 1 + 3 * 2.0**(-8), -3.4e38]) /= &
      int([int(z'3F80'), int(z'3F82'), int(z'7F80') - 32768], c_int16_t))
    print '(a, i0, a)', 'conversions: ', wrong, ' wrong'
  end function

  subroutine require(status)
    integer(c_int32_t), intent(in) :: status
    if (status == SPIDER_OK) return
    print '(a)', spider_error()
    error stop 'a call failed'
  end subroutine
end program
