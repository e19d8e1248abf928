# plait_assets(ROOM): the files of src/ROOM/assets become one source of plait_ROOM that has them as text; room/assets.h
# declares how to ask for one. A changed, new or removed file makes it again.
function(plait_assets room)
  set(folder ${CMAKE_SOURCE_DIR}/src/${room}/assets)
  file(GLOB assets CONFIGURE_DEPENDS ${folder}/*)
  set(source ${CMAKE_BINARY_DIR}/${room}_assets.cpp)
  add_custom_command(
    OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -DROOM=${room} -DFOLDER=${folder} -DSOURCE=${source} -P ${CMAKE_SOURCE_DIR}/cmake/write_assets.cmake
    DEPENDS ${assets} ${CMAKE_SOURCE_DIR}/cmake/write_assets.cmake
    COMMENT "The files of src/${room}/assets as C++"
    VERBATIM)
  target_sources(plait_${room} PRIVATE ${source})
endfunction()
