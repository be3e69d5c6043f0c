# CMake toolchain file: builds a project with bf-clang and bf-clang++.
#
#     cmake -DCMAKE_TOOLCHAIN_FILE=PREFIX/share/cmake/bf-toolchain.cmake ...
#
# Found relative to this file, so the install tree may be anywhere. CMAKE_SYSTEM_NAME stays unset: this is a native
# build, and try_run runs programs.
get_filename_component(_bf_bin "${CMAKE_CURRENT_LIST_DIR}/../../bin" ABSOLUTE)

set(CMAKE_C_COMPILER "${_bf_bin}/bf-clang")
set(CMAKE_CXX_COMPILER "${_bf_bin}/bf-clang++")

# Archives of LTO objects need the archiver that belongs to the compiler. Cached, because find_program looks there.
foreach(_bf_language IN ITEMS "" C_COMPILER_ CXX_COMPILER_)
    set(CMAKE_${_bf_language}AR "${_bf_bin}/bf-ar" CACHE FILEPATH "Archiver of bf-clang")
    set(CMAKE_${_bf_language}RANLIB "${_bf_bin}/bf-ranlib" CACHE FILEPATH "Archive indexer of bf-clang")
endforeach()

unset(_bf_language)
unset(_bf_bin)
