! Diffusion on all ranks: what one rank computes of the same field.
program consumer
  use, intrinsic :: iso_c_binding
  use mpi
  use spider
  use spider_distributed
  implicit none
  interface
    function diffusion_kernel() bind(c) result(kernel)
      import :: c_ptr
      type(c_ptr) :: kernel
    end function
    function waves_kernel() bind(c) result(kernel)
      import :: c_ptr
      type(c_ptr) :: kernel
    end function
  end interface
  integer(c_int64_t), parameter :: whole(3) = [1_c_int64_t, 61_c_int64_t, 130_c_int64_t], steps = 7
  real(c_float), target :: values(130, 61), after(130, 61), alone(130, 61)
  real(c_float), pointer :: a_cells(:, :), b_cells(:, :)
  type(spider_field), target :: a, b
  type(spider_owned_field) :: one, other
  type(spider_grid_layout) :: layout
  type(spider_sweep) :: sweep
  type(c_ptr) :: grid, result
  logical :: in_other
  integer :: rank, error, i, j

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call require(spider_select_device(MPI_COMM_WORLD))
  if (spider_grid_create(MPI_COMM_WORLD, diffusion_kernel(), whole, grid, [.false., .false., .false.]) &
      /= SPIDER_ERROR_RANKS) error stop 'rows that are no ring were not refused'
  call require(spider_grid_create(MPI_COMM_WORLD, diffusion_kernel(), whole, grid, [.false., .true., .false.]))
  layout = spider_get_layout(grid)
  if (layout%ranks > 1 .and. len(spider_grid_transport(grid)) == 0) error stop 'no word of how halos move'

  do j = 1, 61
    do i = 1, 130
      values(i, j) = real(mod(7 * i + 13 * j, 64)) / 64
    end do
  end do
  call place(a_cells, a)
  call place(b_cells, b)
  call require(spider_grid_scatter(grid, c_loc(values), 0_c_int32_t, a))
  call require(spider_grid_write_npy(grid, a, 'fortran_before.npy'))
  call require(spider_grid_read_npy(grid, 'fortran_before.npy', b))
  call require(spider_grid_iterate(grid, b, a, steps - 4, c_null_ptr, result))
  sweep%size = int(storage_size(sweep) / 8, c_int32_t)
  sweep%in = result
  sweep%out = merge(c_loc(b), c_loc(a), c_associated(result, c_loc(a)))
  call require(spider_grid_run(grid, sweep, 4_c_int64_t, result))
  call require(spider_grid_wait(grid, c_null_ptr, 60.0_c_double))
  if (c_associated(result, c_loc(a))) call require(spider_grid_gather(grid, a, 0_c_int32_t, c_loc(after)))
  if (c_associated(result, c_loc(b))) call require(spider_grid_gather(grid, b, 0_c_int32_t, c_loc(after)))

  if (rank == 0) then
    call require(spider_field_create(diffusion_kernel(), shape(values), one))
    call require(spider_field_create(diffusion_kernel(), shape(values), other))
    call require(spider_field_set(one, values))
    call require(spider_field_iterate(diffusion_kernel(), one, other, int(steps), c_null_ptr, in_other))
    if (in_other) call require(spider_field_get(other, alone))
    if (.not. in_other) call require(spider_field_get(one, alone))
    if (any(transfer(after, [1_c_int32_t]) /= transfer(alone, [1_c_int32_t]))) error stop 'not what one rank computes'
    print '(a, i0, a)', 'Fortran: ', layout%ranks, ' ranks, the bits of one'
    call spider_field_destroy(one)
    call spider_field_destroy(other)
  end if
  call require(spider_grid_free(grid))
  call check_images()
  call check_waves()
  call MPI_Finalize(error)

contains

  !> Images of a batch: planes of a grid.
  subroutine check_images()
    integer(c_int64_t), parameter :: images = 3
    real(c_float), allocatable, target :: all(:, :, :), stepped(:, :, :)
    real(c_float), pointer :: cells(:, :, :)
    type(spider_field), target :: fields(2)
    integer :: k

    allocate (all(130, 61, images), stepped(130, 61, images))
    do k = 1, int(images)
      all(:, :, k) = values / k
    end do
    call require(spider_grid_create(MPI_COMM_WORLD, diffusion_kernel(), [images, whole(2:)], grid))
    layout = spider_get_layout(grid)
    do k = 1, 2
      allocate (cells(1 - layout%low(3):layout%extent(3) + layout%high(3), &
                      1 - layout%low(2):layout%extent(2) + layout%high(2), images), source=0.0_c_float)
      fields(k)%data = c_loc(cells(1, 1, 1))
      fields(k)%extent = layout%extent
      fields(k)%stride = [size(cells, 1, c_int64_t) * size(cells, 2, c_int64_t), size(cells, 1, c_int64_t)]
    end do
    call require(spider_grid_scatter(grid, c_loc(all), 0_c_int32_t, fields(1)))
    call require(spider_grid_iterate(grid, fields(1), fields(2), 2_c_int64_t, c_null_ptr, result))
    call require(spider_grid_wait(grid, c_null_ptr, 60.0_c_double))
    call require(spider_grid_gather(grid, fields(1), 0_c_int32_t, c_loc(stepped)))
    if (rank == 0) then
      call require(spider_field_create(diffusion_kernel(), shape(values), one))
      call require(spider_field_create(diffusion_kernel(), shape(values), other))
      do k = 1, int(images)
        call require(spider_field_set(one, all(:, :, k)))
        call require(spider_field_iterate(diffusion_kernel(), one, other, 2, c_null_ptr, in_other))
        call require(spider_field_get(one, alone))
        if (any(transfer(stepped(:, :, k), [1_c_int32_t]) /= transfer(alone, [1_c_int32_t]))) &
          error stop 'not what one rank computes of an image'
      end do
      print '(a, i0, a, i0, a)', 'Fortran: ', images, ' images on ', layout%ranks, ' ranks, the bits of one'
      call spider_field_destroy(one)
      call spider_field_destroy(other)
    end if
    call require(spider_grid_free(grid))
  end subroutine

  !> A system of equations: each field by the grid of its own.
  subroutine check_waves()
    integer, parameter :: most = 8
    type(spider_owned_field), target :: alone(most), other(most)
    type(spider_field), target :: fields(most), outputs(most)
    type(c_ptr) :: addresses(most), seconds(most), of_field
    target :: addresses, seconds
    real(c_double), target :: dt(1) = [0.125_c_double]
    type(spider_kernel_info) :: info
    type(spider_sweep) :: sweep
    integer(c_int32_t), pointer :: uses(:), axes(:)
    real(c_float), pointer :: cells(:, :)
    integer(c_int32_t) :: i
    integer :: n

    call require(spider_get_info(waves_kernel(), info))
    n = info%field_count
    call c_f_pointer(info%field_uses, uses, [n])
    call c_f_pointer(info%field_axes, axes, [n])
    call require(spider_grid_create(MPI_COMM_WORLD, waves_kernel(), whole, grid))
    seconds = c_null_ptr
    do i = 1, int(n, c_int32_t)
      of_field = spider_grid_of_field(grid, i - 1)
      layout = spider_get_layout(of_field)
      call place(cells, fields(i))
      addresses(i) = c_loc(fields(i))
      if (iand(uses(i), SPIDER_FIELD_TWO_BUFFERS) /= 0) then
        call place(cells, outputs(i))
        seconds(i) = c_loc(outputs(i))
      end if
      call require(spider_grid_scatter(of_field, c_loc(values), 0_c_int32_t, fields(i)))
      if (rank /= 0) cycle
      call require(spider_system_field(waves_kernel(), i, shape(values), alone(i)))
      if (iand(uses(i), SPIDER_FIELD_TWO_BUFFERS) /= 0) &
        call require(spider_system_field(waves_kernel(), i, shape(values), other(i)))
      call require(spider_field_set(alone(i), values(:, :merge(61, 1, btest(axes(i), 1)))))
    end do
    sweep%size = int(storage_size(sweep) / 8, c_int32_t)
    sweep%fields = c_loc(addresses)
    sweep%outputs = c_loc(seconds)
    sweep%scalars = c_loc(dt)
    call require(spider_grid_run(grid, sweep, 5_c_int64_t, result))
    call require(spider_grid_wait(grid, c_null_ptr, 60.0_c_double))
    call require(spider_grid_gather(spider_grid_of_field(grid, 0_c_int32_t), fields(1), 0_c_int32_t, c_loc(after)))
    if (rank == 0) then
      call require(spider_system_run(waves_kernel(), alone(:n), c_null_ptr, other(:n), dt, 5))
      call require(spider_field_get(alone(1), values))
      if (any(transfer(after, [1_c_int32_t]) /= transfer(values, [1_c_int32_t]))) error stop 'waves: not what one rank computes'
      print '(a, i0, a)', 'Fortran: a system on ', layout%ranks, ' ranks, the bits of one'
      do i = 1, int(n, c_int32_t)
        call spider_field_destroy(alone(i))
        call spider_field_destroy(other(i))
      end do
    end if
    call require(spider_grid_free(grid))
  end subroutine

  !> Memory for this rank's part and its halo, on the host, until the program ends.
  subroutine place(cells, field)
    real(c_float), pointer, intent(out) :: cells(:, :)
    type(spider_field), intent(out) :: field
    allocate (cells(1 - layout%low(3):layout%extent(3) + layout%high(3), &
                    1 - layout%low(2):layout%extent(2) + layout%high(2)), source=0.0_c_float)
    field%data = c_loc(cells(1, 1))
    field%extent = layout%extent
    field%stride = [0_c_int64_t, size(cells, 1, c_int64_t)]
  end subroutine

  subroutine require(status)
    integer(c_int32_t), intent(in) :: status
    if (status == SPIDER_OK) return
    print '(a)', spider_error()
    error stop 'a call failed'
  end subroutine
end program
