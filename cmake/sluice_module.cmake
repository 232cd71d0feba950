# sluice_module(NAME [LINK lib...]): one library per module out of every .cc in folder NAME and below.
#
# What a file is follows from its name, so adding one edits no list:
#   x.cc        the module's library          x_test.cc   the module's one test binary, ctest name NAME
#                                             test.cc     the same, in an op folder of kernels (so bench.cc)
#   avx2.cc, avx512.cc, avx512bf16.cc
#               the module's library, for that instruction set (tensor/isa.h)
#   x_fuzz.cc   a libFuzzer binary, NAME_x_fuzz            x_bench.cc  a bench binary, NAME_x_bench
# CONFIGURE_DEPENDS makes ninja look for new files at each build.

# No exceptions: their tables refer to a weak symbol.
set(isa_flags_avx2 -mavx2 -mfma -mf16c -fno-exceptions)
# g++ 12 warns of the undefined vectors in its own header of intrinsics.
set(isa_flags_avx512 ${isa_flags_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
set(isa_flags_avx512bf16 ${isa_flags_avx512} -mavx512vbmi -mavx512bf16)

function(sluice_module name)
  cmake_parse_arguments(ARG "" "" "LINK;TEST_LINK" ${ARGN})
  set(dir ${CMAKE_CURRENT_SOURCE_DIR}/${name})
  file(GLOB_RECURSE all CONFIGURE_DEPENDS ${dir}/*.cc)
  set(tests ${all})
  list(FILTER tests INCLUDE REGEX "[_/]test\\.cc$")
  set(fuzzers ${all})
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cc$")
  set(benches ${all})
  list(FILTER benches INCLUDE REGEX "[_/]bench\\.cc$")
  set(sources ${all})
  list(FILTER sources EXCLUDE REGEX "[_/](test|fuzz|bench)\\.cc$")

  foreach(file ${sources})
    get_filename_component(stem ${file} NAME_WE)
    if(DEFINED isa_flags_${stem})
      set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS "${isa_flags_${stem}}")
    endif()
  endforeach()

  if(sources)
    add_library(${name} STATIC ${sources})
    target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(${name} PUBLIC ${ARG_LINK} Threads::Threads)
  else()  # a module of headers only
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(${name} INTERFACE ${ARG_LINK} Threads::Threads)
  endif()

  if(SLUICE_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE ${name} ${ARG_TEST_LINK} GTest::gmock GTest::gtest_main)
    target_compile_definitions(${name}_test PRIVATE SLUICE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    add_test(NAME ${name} COMMAND ${name}_test)
  endif()
  if(SLUICE_FUZZERS)
    foreach(file ${fuzzers})
      get_filename_component(stem ${file} NAME_WE)
      add_executable(${name}_${stem} ${file})
      target_link_libraries(${name}_${stem} PRIVATE ${name})
      target_link_options(${name}_${stem} PRIVATE -fsanitize=fuzzer)
    endforeach()
  endif()
  if(SLUICE_BENCHES)
    foreach(file ${benches})
      get_filename_component(stem ${file} NAME_WE)
      if(stem STREQUAL "bench")  # of an op: named after its folder
        get_filename_component(folder ${file} DIRECTORY)
        get_filename_component(op ${folder} NAME)
        set(stem ${op}_bench)
      endif()
      add_executable(${name}_${stem} ${file})
      target_link_libraries(${name}_${stem} PRIVATE ${name} ${ARG_TEST_LINK})
    endforeach()
  endif()
endfunction()
