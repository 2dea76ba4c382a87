#include "spec/header_names.h"

#include "spec/names.h"

namespace spidergen::spec {
namespace {

// Headers directly in the include folders whose name is an identifier: of glibc and musl, POSIX, C23, GCC and
// Clang (x86 and Arm; without intrinsics, which end alike), the CUDA toolkits 12 and 13 with their libraries,
// and ours. Taken from Debian 12 (`dpkg -L libc6-dev libcrypt-dev libstdc++-12-dev libgcc-12-dev
// libclang-common-14-dev`) and /usr/local/cuda/include; house.header_names finds missing ones.
constexpr std::string_view header_names =
    " acc_prof aio aliases alloca altivec ar argp argz arm_acle arm_bf16 arm_cde arm_cmse arm_fp16 "
    "arm_mve arm_neon arm_sve assert auto_ptr backtrace backward_warning binders builtin_types "
    "builtins byteswap cet channel_descriptor common_functions complex cooperative_groups cpio cpuid "
    "crypt ctype cuComplex cublas cublasLt cublasMp cublasXt cublas_api cublas_v2 cuda cudaEGL "
    "cudaEGLTypedefs cudaGL cudaGLTypedefs cudaProfiler cudaProfilerTypedefs cudaTypedefs cudaVDPAU "
    "cudaVDPAUTypedefs cuda_awbarrier cuda_awbarrier_helpers cuda_awbarrier_primitives cuda_bf16 "
    "cuda_device_runtime_api cuda_egl_interop cuda_fp16 cuda_fp4 cuda_fp6 cuda_fp8 cuda_gl_interop "
    "cuda_occupancy cuda_pipeline cuda_pipeline_helpers cuda_pipeline_primitives cuda_profiler_api "
    "cuda_runtime cuda_runtime_api cuda_stdint cuda_surface_types cuda_texture_types "
    "cuda_vdpau_interop cudalibxt cudart_platform cudla cudnn cudnn_adv cudnn_adv_v9 cudnn_backend "
    "cudnn_backend_v9 cudnn_cnn cudnn_cnn_v9 cudnn_graph cudnn_graph_v9 cudnn_ops cudnn_ops_v9 "
    "cudnn_v9 cudnn_version cudnn_version_v9 cudss cufft cufftXt cufftw cufile cupti cupti_activity "
    "cupti_activity_deprecated cupti_callbacks cupti_checkpoint cupti_common cupti_driver_cbid "
    "cupti_events cupti_metrics cupti_nvtx_cbid cupti_pcsampling cupti_pcsampling_util "
    "cupti_pmsampling cupti_profiler_host cupti_profiler_target cupti_range_profiler cupti_result "
    "cupti_runtime_cbid cupti_sass_metrics cupti_target cupti_version curand curand_discrete "
    "curand_discrete2 curand_globals curand_kernel curand_lognormal curand_mrg32k3a curand_mtgp32 "
    "curand_mtgp32_host curand_mtgp32_kernel curand_mtgp32dc_p_11213 curand_normal "
    "curand_normal_static curand_philox4x32_x curand_poisson curand_precalc curand_uniform cusolverDn "
    "cusolverMg cusolverMp cusolverRf cusolverSp cusolverSp_LOWLEVEL_PREVIEW cusolver_common cusparse "
    "cusparseLt cusparse_v2 cutensor cutensorMg cuviddec cxxabi device_atomic_functions "
    "device_double_functions device_functions device_functions_decls device_launch_parameters "
    "device_types dirent dlfcn driver_functions driver_types elf endian envz err errno error execinfo "
    "fatbinary_section fcntl features features_time64 fenv float fmtmsg fnmatch fpu_control fstab fts "
    "ftw gconv gcov generated_cudaGL_meta generated_cudaVDPAU_meta generated_cuda_gl_interop_meta "
    "generated_cuda_meta generated_cuda_runtime_api_meta generated_cuda_vdpau_interop_meta "
    "generated_cudart_removed_meta generated_nvtx_meta getopt glob grp gshadow hash_fun hashtable "
    "hexagon_circ_brev_intrinsics hexagon_protos hexagon_types host_config host_defines "
    "hvx_hexagon_protos iconv ieee754 ifaddrs inttypes iso646 ISO_Fortran_binding langinfo lastlog "
    "libgen libintl library_types limits link locale malloc math math_constants math_functions "
    "math_functions_dbl_ptx3 mcheck memory mm3dnow mm_malloc mma mntent monetary mqueue msa nccl "
    "nccl_device ndbm netdb nl_types npp nppcore nppdefs nppi nppi_arithmetic_and_logical_operations "
    "nppi_color_conversion nppi_data_exchange_and_initialization nppi_filtering_functions "
    "nppi_geometry_transforms nppi_linear_transforms nppi_morphological_operations "
    "nppi_statistics_functions nppi_support_functions nppi_threshold_and_compare_operations npps "
    "npps_arithmetic_and_logical_operations npps_conversion_functions npps_filtering_functions "
    "npps_initialization npps_statistics_functions npps_support_functions nss nvFatbin nvJitLink "
    "nvPTXCompiler nvToolsExt nvToolsExtCuda nvToolsExtCudaRt nvToolsExtMeta nvToolsExtOpenCL "
    "nvToolsExtSync nv_decode nvblas nvcuvid nvgraph nvjpeg nvml nvperf_common nvperf_cuda_host "
    "nvperf_host nvperf_target nvrtc nvshmem nvtx nvvm obstack omp openacc paths poll printf "
    "proc_service pthread ptrauth pty pwd quadmath quadmath_weak re_comp regex regexp resolv "
    "riscv_vector sched search semaphore setjmp sgtty shadow signal sm_20_atomic_functions "
    "sm_20_intrinsics sm_30_intrinsics sm_32_atomic_functions sm_32_intrinsics sm_35_atomic_functions "
    "sm_35_intrinsics sm_60_atomic_functions sm_61_intrinsics sobol_direction_vectors spawn spider "
    "stab stdalign stdarg stdatomic stdbit stdbool stdckdint stddef stdfix stdint stdio stdio_ext "
    "stdlib stdnoreturn string strings stropts surface_functions surface_indirect_functions "
    "surface_types syscall sysexits syslimits syslog tar termio termios texture_fetch_functions "
    "texture_indirect_functions texture_types tgmath thread_db threads time trace ttyent uchar "
    "ucontext ulimit unistd unwind utime utmp utmpx values varargs vector_functions vector_types wait "
    "wasm_simd128 wchar wctype wordexp ";

}  // namespace

bool is_header_name(std::string_view name) {
  return name.ends_with("intrin") || is_word_of(header_names, name);
}

}  // namespace spidergen::spec
