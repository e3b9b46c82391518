# What a wheel holds besides the Python files.

# Installs the two native files with what they link, except the C and C++ libraries: a second copy of the
# latter would meet PyTorch's in one process.
function(lockstep_wheel core command)
  install(FILES "${core}" DESTINATION lockstep COMPONENT python)
  install(PROGRAMS "${command}" DESTINATION lockstep/bin COMPONENT python)
  set(runtime "${CMAKE_CURRENT_BINARY_DIR}/$<CONFIG>.cmake")
  string(CONFIGURE [[
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES "@command@" LIBRARIES "@core@"
     RESOLVED_DEPENDENCIES_VAR libraries
     PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|stdc[+][+]|gcc_s)[.]so")
file(MAKE_DIRECTORY "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/lockstep/lib")
foreach(library IN LISTS libraries)
  get_filename_component(name "${library}" NAME)
  file(COPY_FILE "${library}" "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/lockstep/lib/${name}")
endforeach()
]] content @ONLY)
  file(GENERATE OUTPUT "${runtime}" CONTENT "${content}")
  install(SCRIPT "${runtime}" COMPONENT python)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/scenarios" DESTINATION lockstep/share/lockstep
          COMPONENT python)
  install(FILES "${PROJECT_SOURCE_DIR}/python/lockstep.pth" DESTINATION . COMPONENT python)
endfunction()
