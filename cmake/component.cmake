# SPDX-License-Identifier: GPL-3.0-or-later
# One static library per folder of core. What a folder may include is what it links: a component sees the headers of
# the components it names (and theirs), so an upward include is a missing dependency. The include test checks the same.

add_library(tpscope_options INTERFACE)
target_compile_features(tpscope_options INTERFACE cxx_std_20)
target_compile_options(tpscope_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor)
# GCC 12 reports overlaps and bounds inside its own std::string at -O2 (GCC bugs 105329, 105651): no fault of the caller.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(tpscope_options INTERFACE -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow)
endif()
if(TPSCOPE_WERROR)
  target_compile_options(tpscope_options INTERFACE -Werror)
endif()
if(TPSCOPE_SANITIZE)
  add_compile_options(-fsanitize=${TPSCOPE_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${TPSCOPE_SANITIZE})
endif()

# Standard headers, tl::expected and json.hpp (four seconds a file) are parsed once for all of core and the command line.
if(TPSCOPE_PCH)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/pch/core.cpp CONTENT "// Owns the precompiled header of core.\n")
  add_library(tpscope_pch OBJECT ${CMAKE_BINARY_DIR}/pch/core.cpp)
  target_link_libraries(tpscope_pch PRIVATE tpscope_options)
  target_precompile_headers(tpscope_pch PRIVATE <algorithm> <array> <chrono> <cmath> <cstdint> <filesystem> <functional>
    <map> <memory> <optional> <ranges> <set> <span> <sstream> <string> <string_view> <unordered_map> <variant> <vector>
    <nlohmann/json.hpp> <tl/expected.hpp>)
  target_compile_options(tpscope_pch PRIVATE -fpch-preprocess)
endif()

function(tpscope_use_pch target)
  if(TPSCOPE_PCH)
    target_precompile_headers(${target} REUSE_FROM tpscope_pch)
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  endif()
endfunction()

# tpscope_component(name DEPS a b LIBS x y): library tpscope_<name> from core/<name>/*.cpp.
function(tpscope_component name)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp
       ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.h)
  add_library(tpscope_${name} STATIC ${sources})
  set_target_properties(tpscope_${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_include_directories(tpscope_${name} PUBLIC ${CMAKE_SOURCE_DIR}/core)
  target_link_libraries(tpscope_${name} PRIVATE tpscope_options)
  tpscope_use_pch(tpscope_${name})
  foreach(dep ${ARG_DEPS})
    target_link_libraries(tpscope_${name} PUBLIC tpscope_${dep})
  endforeach()
  target_link_libraries(tpscope_${name} PUBLIC ${ARG_LIBS})
endfunction()
