# SPDX-License-Identifier: GPL-3.0-or-later
# One static library per folder of core. What a folder may include is what it links: a component sees the headers of
# the components it names (and theirs), so an upward include is a missing dependency. The include test checks the same.

add_library(tpscope_options INTERFACE)
target_compile_features(tpscope_options INTERFACE cxx_std_20)
target_compile_options(tpscope_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor)
if(TPSCOPE_WERROR)
  target_compile_options(tpscope_options INTERFACE -Werror)
endif()
if(TPSCOPE_SANITIZE)
  add_compile_options(-fsanitize=${TPSCOPE_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${TPSCOPE_SANITIZE})
endif()

# tpscope_component(name DEPS a b LIBS x y): library tpscope_<name> from core/<name>/*.cpp.
function(tpscope_component name)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp
       ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.h)
  add_library(tpscope_${name} STATIC ${sources})
  set_target_properties(tpscope_${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_include_directories(tpscope_${name} PUBLIC ${CMAKE_SOURCE_DIR}/core)
  target_link_libraries(tpscope_${name} PRIVATE tpscope_options)
  foreach(dep ${ARG_DEPS})
    target_link_libraries(tpscope_${name} PUBLIC tpscope_${dep})
  endforeach()
  target_link_libraries(tpscope_${name} PUBLIC ${ARG_LIBS})
endfunction()
