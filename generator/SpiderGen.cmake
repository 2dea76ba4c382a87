# spider_add_stencil(<target>
#                    SPECS <yaml>...               specs; the stem of each names its stencil
#                    [BACKEND cuda|host|emulated]  default cuda
#                    [ARCHITECTURES <list>]        as CUDA_ARCHITECTURES; default CMAKE_CUDA_ARCHITECTURES
#                    [DEPENDS <file>...]           what else the kernels are generated from
#                    [OUTPUT_DIRECTORY <dir>]      default: a folder per kernel in the build tree
#                    [NAME <name>]                 of the kernel, where it is not its one spec's
#                    [DEFINE <name>=<value>...]    parameters of the specs that get another value
#                    [OPTIONS <option>...]         for spider-gen, e.g. --engine cuda; not --arch nor -o
#                    [OUT_VAR <variable>])         receives the paths of the headers
#
# Links the kernels of the specs to the target, their headers on the include path of the target and of what links it. A
# kernel is generated and compiled once, however many targets use it. It is generated again when its spec, a file of
# DEPENDS or spider-gen changes.
#
# A SHARED or MODULE library exports its kernels and the C interface whether its own sources use them or not, for callers
# that load it, such as Python; add_library(<target> MODULE) needs no sources of its own.
include_guard(GLOBAL)

# include() keeps this to this file; the functions remember it. A caller may be under older policies.
cmake_policy(VERSION 3.25)

function(spider_add_stencil target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "BACKEND;OUTPUT_DIRECTORY;OUT_VAR;NAME"
                        "SPECS;ARCHITECTURES;DEPENDS;DEFINE;OPTIONS")
  set(where "spider_add_stencil(${target})")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${where}: unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  elseif(arg_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "${where}: nothing follows ${arg_KEYWORDS_MISSING_VALUES}")
  elseif(NOT TARGET ${target})
    message(FATAL_ERROR "${where}: there is no such target; create it first")
  elseif(NOT arg_SPECS)
    message(FATAL_ERROR "${where}: SPECS is missing")
  endif()
  get_target_property(aliased ${target} ALIASED_TARGET)
  if(aliased)
    set(target ${aliased})
  endif()
  if(NOT DEFINED arg_BACKEND)
    set(arg_BACKEND cuda)
  endif()
  _spider_check_options("${where}" "${arg_OPTIONS}")
  list(LENGTH arg_SPECS count)
  if(DEFINED arg_NAME AND count GREATER 1)
    message(FATAL_ERROR "${where}: NAME ${arg_NAME} is for one spec, and SPECS names ${count}; call it for each")
  endif()
  foreach(definition IN LISTS arg_DEFINE)
    if(NOT definition MATCHES "^[A-Za-z_][A-Za-z0-9_]*=.")
      message(FATAL_ERROR "${where}: DEFINE wants NAME=VALUE, e.g. DEFINE alpha=0.2, not '${definition}'")
    endif()
    list(APPEND arg_OPTIONS -D "${definition}")
  endforeach()
  _spider_require_backend("${where}" ${target} ${arg_BACKEND})
  _spider_architectures("${where}" ${arg_BACKEND} "${arg_ARCHITECTURES}" architectures)

  set(depends "")
  foreach(file IN LISTS arg_DEPENDS)
    if(NOT TARGET "${file}")
      get_filename_component(file "${file}" ABSOLUTE)
    endif()
    list(APPEND depends "${file}")
  endforeach()

  set(headers "")
  foreach(spec IN LISTS arg_SPECS)
    get_filename_component(spec "${spec}" ABSOLUTE)
    if(NOT EXISTS "${spec}")
      message(FATAL_ERROR "${where}: there is no spec ${spec}")
    endif()
    get_filename_component(name "${spec}" NAME_WLE)
    if(DEFINED arg_NAME)
      set(name "${arg_NAME}")
    endif()
    _spider_kernel_library("${where}" "${spec}" "${name}" ${arg_BACKEND} "${architectures}" "${depends}"
                           "${arg_OUTPUT_DIRECTORY}" "${arg_OPTIONS}" library)
    _spider_link("${where}" ${target} ${library})
    get_target_property(header ${library} SPIDER_HEADER)
    list(APPEND headers "${header}")
  endforeach()
  if(DEFINED arg_OUT_VAR)
    set(${arg_OUT_VAR} "${headers}" PARENT_SCOPE)
  endif()
endfunction()

# Stops at options for spider-gen that spider_add_stencil gives it itself, and at those with which it writes no kernel.
function(_spider_check_options where options)
  foreach(option IN LISTS options)
    if(option MATCHES "^--arch(=|$)")
      message(FATAL_ERROR "${where}: OPTIONS ${option}: ARCHITECTURES says for which devices, e.g. ARCHITECTURES 90")
    elseif(option MATCHES "^--name(=|$)")
      message(FATAL_ERROR "${where}: OPTIONS ${option}: NAME says how the kernel is called, e.g. NAME heat_fast")
    elseif(option MATCHES "^(-o|--output(=|$))")
      message(FATAL_ERROR "${where}: OPTIONS ${option}: OUTPUT_DIRECTORY says where the files go")
    elseif(option MATCHES "^--(check|list-outputs|new|version|help)(=|$)")
      message(FATAL_ERROR "${where}: OPTIONS ${option}: with it spider-gen writes no kernel; leave it out")
    elseif(option MATCHES "^-$|[.]ya?ml$")
      message(FATAL_ERROR "${where}: OPTIONS ${option}: specs follow SPECS")
    endif()
  endforeach()
endfunction()

# Why `executable` cannot be the spider-gen of this version on this host; empty where it can.
function(_spider_tool_problem executable version result)
  set(problem "")
  set(mend "Set SpiderGen_EXECUTABLE to a spider-gen ${version} for this host.")
  if(NOT EXISTS "${executable}")
    set(problem "There is no ${executable}. ${mend}")
  else()
    execute_process(COMMAND "${executable}" --version RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_QUIET)
    if(NOT status EQUAL 0)
      set(problem "${executable} does not run here (${status}). ${mend}")
    elseif(NOT said STREQUAL "spider-gen version ${version}\n")
      string(STRIP "${said}" said)
      set(problem "${executable} is '${said}'. ${mend}")
    endif()
  endif()
  set(${result} "${problem}" PARENT_SCOPE)
endfunction()

# Stops, with what would help, where this project cannot build kernels of the back end.
function(_spider_require_backend where target backend)
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(backend STREQUAL "cuda")
    if(NOT "CUDA" IN_LIST languages)
      message(FATAL_ERROR
        "${where}: BACKEND cuda needs the language CUDA, which this project has not enabled. Write "
        "project(... LANGUAGES CXX CUDA) or enable_language(CUDA) before it; or run on the host with BACKEND host; or "
        "test the kernels there, slowly, with BACKEND emulated.")
    elseif(CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA" AND CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.5)
      message(FATAL_ERROR "${where}: kernels need CUDA 12.5 or newer, and nvcc is ${CMAKE_CUDA_COMPILER_VERSION}")
    elseif(NOT TARGET SpiderGen::runtime)
      message(FATAL_ERROR
        "${where}: BACKEND cuda needs SpiderGen::runtime, and find_package(CUDAToolkit) found no toolkit when SpiderGen "
        "was looked for. Set CUDAToolkit_ROOT to one.")
    endif()
  elseif(backend STREQUAL "host")
    if(NOT TARGET SpiderGen::host)
      message(FATAL_ERROR "${where}: BACKEND host needs SpiderGen::host, which this runtime lacks")
    endif()
  elseif(backend STREQUAL "emulated")
    if(NOT TARGET SpiderGen::emulator)
      message(FATAL_ERROR
        "${where}: BACKEND emulated needs Boost.Context, which was not found. Debian: apt-get install "
        "libboost-context-dev")
    endif()
  else()
    message(FATAL_ERROR "${where}: BACKEND is cuda, host or emulated, not ${backend}")
  endif()

  # The property travels with the libraries, and CMake refuses a mixture anywhere in a link; this only says it better.
  get_target_property(earlier ${target} SPIDER_BACKEND_HERE)
  if(earlier AND NOT earlier STREQUAL backend)
    message(FATAL_ERROR "${where}: BACKEND ${backend}, and an earlier call for this target chose ${earlier}. A program "
                        "links one back end.")
  endif()
  set_target_properties(${target} PROPERTIES SPIDER_BACKEND_HERE ${backend})
endfunction()

# The architectures to compile for: those asked for, otherwise CMAKE_CUDA_ARCHITECTURES without those that have no sparse
# tensor cores, which run the other parts of a program.
function(_spider_architectures where backend asked result)
  if(NOT asked AND backend STREQUAL "cuda")
    set(candidates ${CMAKE_CUDA_ARCHITECTURES})
  else()
    set(candidates ${asked})
  endif()
  set(usable "")
  foreach(candidate IN LISTS candidates)
    if(candidate STREQUAL "native")
      if(backend STREQUAL "cuda" AND NOT CMAKE_CUDA_ARCHITECTURES_NATIVE)
        message(FATAL_ERROR
          "${where}: architecture native: CMake found no GPU on this machine. Name the one to compile for: "
          "-DCMAKE_CUDA_ARCHITECTURES=90 for H100 and H200, 80 for A100, 89 for Ada; or run on the host with "
          "BACKEND host.")
      endif()
      list(APPEND usable ${CMAKE_CUDA_ARCHITECTURES_NATIVE})
    elseif(candidate STREQUAL "all")
      list(APPEND usable ${CMAKE_CUDA_ARCHITECTURES_ALL})
    elseif(candidate STREQUAL "all-major")
      list(APPEND usable ${CMAKE_CUDA_ARCHITECTURES_ALL_MAJOR})
    elseif(candidate MATCHES "^[0-9]+[af]?(-real|-virtual)?$")
      if(asked AND candidate MATCHES "^([0-9]|[1-7][0-9])([^0-9]|$)")
        message(FATAL_ERROR "${where}: ARCHITECTURES ${candidate} has no sparse tensor cores; the first is 80")
      endif()
      list(APPEND usable ${candidate})
    elseif(candidate)
      message(FATAL_ERROR "${where}: ${candidate} is no CUDA architecture")
    endif()
  endforeach()
  list(FILTER usable EXCLUDE REGEX "^([0-9]|[1-7][0-9])([^0-9]|$)")
  list(REMOVE_DUPLICATES usable)
  if(NOT usable AND backend STREQUAL "cuda")
    if(candidates STREQUAL "native")
      set(candidates "native, ${CMAKE_CUDA_ARCHITECTURES_NATIVE}")
    endif()
    message(FATAL_ERROR
      "${where}: CMAKE_CUDA_ARCHITECTURES (${candidates}) names no device with sparse tensor cores. Pass "
      "-DCMAKE_CUDA_ARCHITECTURES=80 (or 86, 89, 90, ...), or ARCHITECTURES 80 here.")
  endif()
  set(${result} "${usable}" PARENT_SCOPE)
endfunction()

# The static library of one kernel; created by the first call that wants it and found by the others, from any directory.
function(_spider_kernel_library where spec stem backend architectures depends output_directory options result)
  if(NOT stem MATCHES "^[A-Za-z_][A-Za-z0-9_]*$")
    message(FATAL_ERROR "${where}: ${spec}: '${stem}', the stem of the spec or what NAME says, names the kernel and must "
                        "be an identifier")
  endif()
  get_filename_component(spec_stem "${spec}" NAME_WLE)
  if(NOT stem STREQUAL spec_stem)
    list(APPEND options --name ${stem})
  endif()
  file(REAL_PATH "${spec}" identity)
  file(RELATIVE_PATH identity "${CMAKE_SOURCE_DIR}" "${identity}")
  string(SHA256 kernel "${identity}|${backend}|${architectures}|${options}")
  string(SUBSTRING "${kernel}" 0 10 kernel)
  if(output_directory)
    get_filename_component(directory "${output_directory}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_BINARY_DIR}")
    string(SHA256 library "${kernel}|${directory}")
    string(SUBSTRING "${library}" 0 10 library)
  else()
    set(library ${kernel})
    set(directory "${CMAKE_BINARY_DIR}/spider-gen/${stem}-${kernel}")
  endif()
  set(library "spider_${stem}_${library}")
  set(${result} ${library} PARENT_SCOPE)
  if(TARGET ${library})
    get_target_property(earlier ${library} SPIDER_DEPENDS)
    if(NOT earlier STREQUAL depends)
      message(FATAL_ERROR "${where}: an earlier call generates ${stem} with other DEPENDS; give both the same")
    endif()
    return()
  endif()

  set(source "${directory}/${stem}.cu")
  set(header "${directory}/${stem}.h")
  set(stamp "${directory}/${stem}.stamp")
  get_property(owner GLOBAL PROPERTY "SPIDER_OWNER_${source}")
  if(owner)
    message(FATAL_ERROR "${where}: ${source} is written for other options already; give each its OUTPUT_DIRECTORY")
  endif()
  set_property(GLOBAL PROPERTY "SPIDER_OWNER_${source}" ${library})

  # spider-gen leaves an unchanged file alone. As an OUTPUT such a file would stay older than the spec, and make would run
  # the command for ever: the OUTPUT is a stamp, the files are BYPRODUCTS, and the library has the stamp among its sources
  # because without it no rule would ask for the command.
  add_custom_command(
    OUTPUT "${stamp}"
    BYPRODUCTS "${source}" "${header}"
    COMMAND SpiderGen::spider-gen "${spec}" -o "${directory}" ${options}
    COMMAND "${CMAKE_COMMAND}" -E touch "${stamp}"
    # COMMAND alone does not run again when the generator changes.
    DEPENDS "${spec}" SpiderGen::spider-gen ${depends}
    COMMENT "Generating stencil ${stem}"
    VERBATIM)

  if(backend STREQUAL "cuda")
    add_library(${library} STATIC "${source}" "${header}" "${stamp}")
    set_target_properties(${library} PROPERTIES CUDA_ARCHITECTURES "${architectures}")
    target_compile_features(${library} PRIVATE cuda_std_17)
    # Of a project with ranks kernels say when their rims are stored (device/spider/field/rims_first.h).
    target_compile_definitions(${library} PRIVATE "$<$<TARGET_EXISTS:SpiderGen::distributed>:SPIDER_TELLS_RIMS>")
    target_link_libraries(${library} PUBLIC SpiderGen::runtime)
    _spider_warn_of_fast_math("${where}")
  else()
    # The LANGUAGE of a .cu cannot be made CXX for other directories, nor under old policies; a .cpp that includes it can
    # be compiled anywhere.
    file(CONFIGURE OUTPUT "${directory}/${stem}_${backend}.cpp" CONTENT "#include \"${stem}.cu\"\n" @ONLY)
    add_library(${library} STATIC "${directory}/${stem}_${backend}.cpp" "${header}" "${stamp}")
    target_compile_features(${library} PRIVATE cxx_std_20)
    # A shared library exports the C interface, not what its kernels are made of.
    set_target_properties(${library} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
    if(backend STREQUAL "host")
      target_link_libraries(${library} PUBLIC SpiderGen::host)
      spider_vectorise(${library})
    else()
      target_link_libraries(${library} PUBLIC SpiderGen::emulator)
      spider_optimise(${library})
    endif()
  endif()
  spider_isolate(${library})
  target_include_directories(${library} INTERFACE "${directory}")
  set_target_properties(${library} PROPERTIES
    POSITION_INDEPENDENT_CODE ON
    SPIDER_STENCIL ${stem}
    SPIDER_KERNEL ${kernel}
    SPIDER_HEADER "${header}"
    SPIDER_DEPENDS "${depends}"
    # Two kernels of one name define the same function, and the linker would take either without a word.
    INTERFACE_SPIDER_KERNEL_${stem} ${kernel}
    COMPATIBLE_INTERFACE_STRING SPIDER_KERNEL_${stem})
endfunction()

# Says once what spider_isolate() cannot undo: CMake lets no target leave out one of CMAKE_CUDA_FLAGS.
function(_spider_warn_of_fast_math where)
  set(flags "${CMAKE_CUDA_FLAGS}")
  foreach(configuration IN LISTS CMAKE_BUILD_TYPE CMAKE_CONFIGURATION_TYPES)
    string(TOUPPER "${configuration}" configuration)
    string(APPEND flags " ${CMAKE_CUDA_FLAGS_${configuration}}")
  endforeach()
  get_property(warned GLOBAL PROPERTY SPIDER_WARNED_OF_FAST_MATH)
  if(flags MATCHES "-use_fast_math" AND NOT warned)
    set_property(GLOBAL PROPERTY SPIDER_WARNED_OF_FAST_MATH ON)
    message(WARNING
      "${where}: CMAKE_CUDA_FLAGS has -use_fast_math. Kernels round as without it, but the functions of updates, such as "
      "exp and sin, are less accurate than the bounds in their files say. Give the flag to targets of your own instead: "
      "target_compile_options(<target> PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-use_fast_math>)")
  endif()
endfunction()

function(_spider_link where target library)
  get_target_property(stem ${library} SPIDER_STENCIL)
  get_target_property(kernel ${library} SPIDER_KERNEL)
  get_target_property(earlier ${target} SPIDER_KERNEL_HERE_${stem})
  if(earlier AND NOT earlier STREQUAL kernel)
    message(FATAL_ERROR "${where}: this target has another stencil named ${stem} already (another spec, or other "
                        "options). A program links one of a name: give this one another, e.g. NAME ${stem}_2.")
  endif()
  set_target_properties(${target} PROPERTIES SPIDER_KERNEL_HERE_${stem} ${kernel})

  # What target_link_libraries(... PUBLIC ...) does. That command would forbid the caller its form without keywords.
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL "INTERFACE_LIBRARY")
    set_property(TARGET ${target} APPEND PROPERTY LINK_LIBRARIES ${library})
  endif()
  if(type MATCHES "^(SHARED|MODULE)_LIBRARY$")
    _spider_export(${target} ${stem})
    # It holds the kernel: whoever gets it installed needs no library of ours.
    set_property(TARGET ${target} APPEND PROPERTY INTERFACE_LINK_LIBRARIES $<BUILD_INTERFACE:${library}>)
  else()
    set_property(TARGET ${target} APPEND PROPERTY INTERFACE_LINK_LIBRARIES ${library})
  endif()
endfunction()

# Takes a kernel and the C interface out of their static libraries into a shared one that does not call them itself.
function(_spider_export target stem)
  set(prefix "")
  if(APPLE)
    set(prefix "_")
  endif()
  foreach(function IN ITEMS ${stem}_kernel spider_apply spider_points_create)
    set_property(TARGET ${target} APPEND PROPERTY LINK_OPTIONS "LINKER:-u,${prefix}${function}")
  endforeach()
  get_target_property(sources ${target} SOURCES)
  if(NOT sources)
    set(source "${CMAKE_BINARY_DIR}/spider-gen/no_sources.cpp")
    file(CONFIGURE OUTPUT "${source}" CONTENT "// The library holds kernels and the C interface only.\n" @ONLY)
    set_property(TARGET ${target} APPEND PROPERTY SOURCES "${source}")
  endif()
endfunction()
