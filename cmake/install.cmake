# `cmake --install` and find_package(lockstep): every room that was built, its headers under their
# include prefix, the command, and lockstep::lockstep, the front door with all it stands on.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/lockstep")

set_target_properties(lockstep_api PROPERTIES EXPORT_NAME lockstep)
add_library(lockstep::lockstep ALIAS lockstep_api)
set_target_properties(lockstep_options PROPERTIES EXPORT_NAME options)
install(TARGETS lockstep_options EXPORT lockstepTargets)

get_property(rooms GLOBAL PROPERTY LOCKSTEP_ROOMS)
get_property(folders GLOBAL PROPERTY LOCKSTEP_ROOM_FOLDERS)
foreach(room folder IN ZIP_LISTS rooms folders)
  string(REPLACE "/" "_" name "${room}")
  install(TARGETS lockstep_${name} EXPORT lockstepTargets
          INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
  install(DIRECTORY "${folder}/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/lockstep/${room}"
          FILES_MATCHING PATTERN "*.h")
endforeach()
install(FILES "${PROJECT_SOURCE_DIR}/cmake/lockstep.h" DESTINATION
              "${CMAKE_INSTALL_INCLUDEDIR}/lockstep")
if(TARGET lockstep)
  install(TARGETS lockstep)
endif()

# What the rooms' link lines name, a consumer must find as well.
get_property(links GLOBAL PROPERTY LOCKSTEP_LINKS)
list(FILTER links EXCLUDE REGEX "BUILD_INTERFACE")
set(LOCKSTEP_FIND_DEPENDENCIES "")
foreach(library "fmt" "tomlplusplus" "nlohmann_json" "Eigen3" "CLI11" "Gloo" "CUDAToolkit" "NCCL")
  set(prefix "${library}::")
  if(library STREQUAL CUDAToolkit)
    set(prefix "CUDA::")
  endif()
  if(links MATCHES "${prefix}")
    string(APPEND LOCKSTEP_FIND_DEPENDENCIES "find_dependency(${library})\n")
  endif()
endforeach()

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/lockstepConfig.cmake.in" "${PROJECT_BINARY_DIR}/lockstepConfig.cmake"
  INSTALL_DESTINATION "${package_folder}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(EXPORT lockstepTargets NAMESPACE lockstep:: DESTINATION "${package_folder}")
install(FILES "${PROJECT_BINARY_DIR}/lockstepConfig.cmake"
              "${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/FindNCCL.cmake"
        DESTINATION "${package_folder}")
