#include <gtest/gtest.h>

#include "camera/camera.h"
#include "contcore/error.h"

namespace contcore {
namespace {

TEST(CameraSettings, AreReadAsTheyAreWritten) {
  const CameraSettings all = parse_camera(
      "Basler-acA1300 30gm-2187,station=press 4,trigger=Line1,exposure=8000.5,gain=0,"
      "PixelFormat=BayerRG8,GammaEnable=false");
  EXPECT_EQ(all.id, "Basler-acA1300 30gm-2187");
  EXPECT_EQ(all.station, "press 4");
  EXPECT_EQ(all.trigger, "Line1");
  EXPECT_EQ(all.exposure, 8000.5);
  EXPECT_EQ(all.gain, 0);
  EXPECT_FALSE(all.rate);
  EXPECT_EQ(all.features, "PixelFormat=BayerRG8 GammaEnable=false");
  const CameraSettings bare = parse_camera("10.0.0.7");
  EXPECT_EQ(bare.station, "10.0.0.7");
  EXPECT_EQ(bare.trigger, "free");
  EXPECT_EQ(bare.features, "");
}

TEST(CameraSettings, WhatMeansNothingIsRefused) {
  for (const std::string text : {"",
                                 ",station=a",
                                 "station=a",
                                 "cam,",
                                 "cam,station",
                                 "cam,exposure=",
                                 "cam,exposure=-1",
                                 "cam,exposure=1e999",
                                 "cam,exposure=1e300",
                                 "cam,exposure=5ms",
                                 "cam,gain=nan",
                                 "cam,rate=x",
                                 "cam,trigger=",
                                 "cam,trigger=software,rate=3",
                                 "cam,speed=3",
                                 "cam,=3",
                                 "cam,Gamma=",
                                 "cam,Gamma=1 Width=2",
                                 "cam,Gam ma=1",
                                 "cam,station=a\nb",
                                 "cam\xff"}) {
    if (text == "cam,") {  // a comma at the end is no setting
      EXPECT_EQ(parse_camera(text).id, "cam");
      continue;
    }
    EXPECT_THROW(
        {
          try {
            parse_camera(text);
          } catch (const Error& error) {
            EXPECT_EQ(error.kind(), Error::Kind::kUsage) << text;
            throw;
          }
        },
        Error)
        << text;
  }
  EXPECT_THROW(parse_camera(std::string(3000, 'x')), Error);
}

}  // namespace
}  // namespace contcore
