# find_package(atalla CONFIG REQUIRED PATHS "$(python -m torch_atalla config --cmake-dir)")
# target_link_libraries(program PRIVATE atalla::runtime)
get_filename_component(_atalla_root "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT EXISTS "${_atalla_root}/lib/libatalla_runtime.so")
  set(atalla_FOUND FALSE)
  set(atalla_NOT_FOUND_MESSAGE "libatalla_runtime.so is missing in ${_atalla_root}/lib")
  return()
endif()
if(NOT TARGET atalla::runtime)
  add_library(atalla::runtime SHARED IMPORTED)
  set_target_properties(atalla::runtime PROPERTIES
    IMPORTED_LOCATION "${_atalla_root}/lib/libatalla_runtime.so"
    IMPORTED_NO_SONAME TRUE
    INTERFACE_INCLUDE_DIRECTORIES "${_atalla_root}/include"
    INTERFACE_LINK_LIBRARIES "dl")
endif()
set(atalla_FOUND TRUE)
set(atalla_RUN_EXECUTABLE "${_atalla_root}/bin/atalla-run")
