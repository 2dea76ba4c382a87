# The kernels of the accuracy tests, emulated and on a GPU: target spider-cases writes them into a folder
# of the build tree, the global property SPIDER_CASES_FOLDER; SPIDER_CASES_NAMES lists them.
include_guard(GLOBAL)

set(SPIDER_RANDOM_SPECS 200 CACHE STRING "How many random specs the accuracy tests check")
set(SPIDER_RANDOM_STEPS_SPECS 24 CACHE STRING "How many more of them take many time steps in a sweep")
set(SPIDER_RANDOM_SEED 20250117 CACHE STRING "Seed of the random specs and of the cases")

find_package(Python3 REQUIRED COMPONENTS Interpreter)  # writing the cases needs its standard library only

set_property(GLOBAL PROPERTY SPIDER_CASES_FOLDER "${PROJECT_BINARY_DIR}/tests/cases")
set(spider_cases_folder "${PROJECT_BINARY_DIR}/tests/cases")
set(names "")
math(EXPR random_specs "${SPIDER_RANDOM_SPECS} + ${SPIDER_RANDOM_STEPS_SPECS}")
if(random_specs GREATER 0)
  math(EXPR last "${random_specs} - 1")
  foreach(index RANGE ${last})
    string(LENGTH "${index}" digits)
    if(digits LESS 3)
      math(EXPR missing "3 - ${digits}")
      string(REPEAT "0" ${missing} zeros)
    else()
      set(zeros "")
    endif()
    list(APPEND names "random_${zeros}${index}")
  endforeach()
endif()
file(GLOB shipped_specs CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/stencils/*.yaml")
foreach(spec IN LISTS shipped_specs)
  file(STRINGS "${spec}" stages REGEX "^stages:")
  if(NOT stages)  # tests/systems checks systems of equations
    get_filename_component(name "${spec}" NAME_WE)
    list(APPEND names "${name}")
  endif()
endforeach()
set_property(GLOBAL PROPERTY SPIDER_CASES_NAMES "${names}")

list(TRANSFORM names PREPEND "${spider_cases_folder}/kernels/" OUTPUT_VARIABLE kernel_files)
list(TRANSFORM kernel_files APPEND ".cu")
set(stamp "${spider_cases_folder}/stamp")
add_custom_command(
  OUTPUT "${stamp}"
  BYPRODUCTS ${kernel_files}
  COMMAND "${Python3_EXECUTABLE}" "${CMAKE_CURRENT_LIST_DIR}/generate_cases.py"
          --spider-gen "$<TARGET_FILE:SpiderGen::spider-gen>" --stencils "${PROJECT_SOURCE_DIR}/stencils"
          --folder "${spider_cases_folder}" --count ${SPIDER_RANDOM_SPECS}
          --steps-count ${SPIDER_RANDOM_STEPS_SPECS} --seed ${SPIDER_RANDOM_SEED}
  COMMAND "${CMAKE_COMMAND}" -E touch "${stamp}"
  DEPENDS SpiderGen::spider-gen ${shipped_specs}
          "${CMAKE_CURRENT_LIST_DIR}/generate_cases.py" "${CMAKE_CURRENT_LIST_DIR}/random_specs.py"
  COMMENT "Generating the kernels of the accuracy tests"
  VERBATIM)
add_custom_target(spider-cases ALL DEPENDS "${stamp}")

# Random specs with updates, and the shipped ones that have one: another folder and target, spider-updates.
set(SPIDER_UPDATE_SPECS 30 CACHE STRING "How many random specs with updates the accuracy tests check")
set(SPIDER_SPARSE_UPDATE_SPECS 12 CACHE STRING "How many more of them are for sparse tensor cores")
set(spider_updates_folder "${PROJECT_BINARY_DIR}/tests/updates")
set(update_names acoustic3d sobel2d diffusion2d_steps_f32 reaction2d curvature2d_steps_f32)
list(TRANSFORM update_names PREPEND "${PROJECT_SOURCE_DIR}/stencils/" OUTPUT_VARIABLE shipped_updates)
list(TRANSFORM shipped_updates APPEND ".yaml")
set(SPIDER_PASSES_UPDATE_SPECS 4 CACHE STRING "How many more of them are for two passes")
math(EXPR update_specs "${SPIDER_UPDATE_SPECS} + ${SPIDER_SPARSE_UPDATE_SPECS} + ${SPIDER_PASSES_UPDATE_SPECS}")
if(update_specs GREATER 0)
  math(EXPR last "${update_specs} - 1")
  foreach(index RANGE ${last})
    string(LENGTH "${index}" digits)
    math(EXPR missing "3 - ${digits}")
    string(REPEAT "0" ${missing} zeros)
    list(APPEND update_names "update_${zeros}${index}")
  endforeach()
endif()
set_property(GLOBAL PROPERTY SPIDER_UPDATES_FOLDER "${spider_updates_folder}")
set_property(GLOBAL PROPERTY SPIDER_UPDATES_NAMES "${update_names}")
list(TRANSFORM update_names PREPEND "${spider_updates_folder}/kernels/" OUTPUT_VARIABLE update_files)
list(TRANSFORM update_files APPEND ".cu")
add_custom_command(
  OUTPUT "${spider_updates_folder}/stamp"
  BYPRODUCTS ${update_files}
  COMMAND "${Python3_EXECUTABLE}" "${CMAKE_CURRENT_LIST_DIR}/random_updates.py"
          --spider-gen "$<TARGET_FILE:SpiderGen::spider-gen>" --folder "${spider_updates_folder}"
          --shipped ${shipped_updates} --count ${SPIDER_UPDATE_SPECS}
          --sparse-count ${SPIDER_SPARSE_UPDATE_SPECS} --passes-count ${SPIDER_PASSES_UPDATE_SPECS}
          --seed ${SPIDER_RANDOM_SEED}
  COMMAND "${CMAKE_COMMAND}" -E touch "${spider_updates_folder}/stamp"
  DEPENDS SpiderGen::spider-gen ${shipped_updates}
          "${CMAKE_CURRENT_LIST_DIR}/random_updates.py" "${CMAKE_CURRENT_LIST_DIR}/random_specs.py"
  COMMENT "Generating the kernels of the accuracy tests of updates"
  VERBATIM)
add_custom_target(spider-updates ALL DEPENDS "${spider_updates_folder}/stamp")

# A shared library of all kernels of a folder, `CASES` or `UPDATES`, with one of the host's back ends, that Python drives
# through the C API.
function(spider_cases_library library runtime)
  spider_kernels_library(${library} ${runtime} CASES spider-cases)
endfunction()
function(spider_updates_library library runtime)
  spider_kernels_library(${library} ${runtime} UPDATES spider-updates)
endfunction()
function(spider_kernels_library library runtime kind target)
  # Several kernels to a translation unit: most of its time goes into the headers.
  set(kernels_per_unit 12)
  get_property(names GLOBAL PROPERTY SPIDER_${kind}_NAMES)
  get_property(folder GLOBAL PROPERTY SPIDER_${kind}_FOLDER)
  set(units "")
  while(names)
    list(SUBLIST names 0 ${kernels_per_unit} of_unit)
    list(LENGTH names left)
    math(EXPR left "${left} - ${kernels_per_unit}")
    if(left GREATER 0)
      list(SUBLIST names ${kernels_per_unit} -1 names)
    else()
      set(names "")
    endif()
    list(TRANSFORM of_unit REPLACE "(.+)" "#include \"\\1.cu\"\n")
    list(JOIN of_unit "" text)
    list(LENGTH units number)
    set(unit "${CMAKE_CURRENT_BINARY_DIR}/${library}_${number}.cpp")
    file(CONFIGURE OUTPUT "${unit}" CONTENT "${text}" @ONLY)
    list(APPEND units "${unit}")
  endwhile()
  add_library(${library} SHARED ${units} "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/forms.cpp")
  add_dependencies(${library} ${target})
  target_include_directories(${library} PRIVATE "${folder}/kernels")
  target_compile_features(${library} PRIVATE cxx_std_20)
  target_link_libraries(${library} PRIVATE "$<LINK_LIBRARY:WHOLE_ARCHIVE,${runtime}>")
  set_target_properties(${library} PROPERTIES CXX_EXTENSIONS OFF)
endfunction()
