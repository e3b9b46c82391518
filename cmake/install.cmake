# `cmake --install` and find_package(lockstep): the command, and lockstep::lockstep, the front door with
# all it stands on. What users include lies in <prefix>/include/lockstep; the rooms' own headers, which
# those include, lie apart, so that they are not taken for the interface.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/lockstep")
set(room_headers "${CMAKE_INSTALL_LIBDIR}/lockstep/include")

set_target_properties(lockstep_options PROPERTIES EXPORT_NAME options)
install(TARGETS lockstep_options EXPORT lockstepTargets)

get_property(rooms GLOBAL PROPERTY LOCKSTEP_ROOMS)
get_property(folders GLOBAL PROPERTY LOCKSTEP_ROOM_FOLDERS)
foreach(room folder IN ZIP_LISTS rooms folders)
  string(REPLACE "/" "_" name "${room}")
  install(TARGETS lockstep_${name} EXPORT lockstepTargets
          INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" "${room_headers}")
  install(DIRECTORY "${folder}/" DESTINATION "${room_headers}/lockstep/${room}"
          FILES_MATCHING PATTERN "*.h")
endforeach()
install(TARGETS lockstep_front_door EXPORT lockstepTargets
        INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" "${room_headers}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/lockstep" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.h")
if(TARGET lockstep)
  install(TARGETS lockstep)
endif()
# Links between the pages hold there as well: README.md next to docs/.
install(FILES "${PROJECT_SOURCE_DIR}/README.md" "${PROJECT_SOURCE_DIR}/CONTRIBUTING.md"
              "${PROJECT_SOURCE_DIR}/SECURITY.md" "${PROJECT_SOURCE_DIR}/LICENSE"
        DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs" DESTINATION "${CMAKE_INSTALL_DOCDIR}")

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
