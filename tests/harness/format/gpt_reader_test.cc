// model.kind = "gpt" and data.kind = "text": defaults taken from the text, and what does not fit.
#include <gtest/gtest.h>

#include "tests/support/scenario_files.h"

namespace lockstep {
namespace {

class GptReaderTest : public ScenarioFiles {
 protected:
  static std::string job(const std::string& model = "",
                         const std::string& data = "text = \"abracadabra\", block_size = 4",
                         const std::string& rest = "") {
    return "format = 1\nworld = { ranks = 1 }\nmodel = { kind = \"gpt\"" + model +
           " }\ndata = { kind = \"text\", " + data +
           " }\nloss = { kind = \"cross-entropy\" }\nloop = { steps = 1 }\n" + rest;
  }
};

TEST_F(GptReaderTest, TheTextSaysHowManyTokensThereAreAndHowLongABlockIs) {
  const Result<Scenario> scenario = load(job());

  ASSERT_TRUE(scenario.ok()) << scenario.error().text();
  const Job& read = *scenario.value().jobs[0];
  EXPECT_EQ(read.model.gpt.vocab, 5);
  EXPECT_EQ(read.model.gpt.context, 4);
  EXPECT_TRUE(read.model.gpt.tied);
  EXPECT_EQ(read.train->size(), 7);
}

TEST_F(GptReaderTest, SizesThatAreGivenMustFitTheText) {
  EXPECT_TRUE(load(job(", vocab = 9, context = 8, width = 6, heads = 3")).ok());
  EXPECT_EQ(error_of(job(", vocab = 4")), "job.toml:3:9: the model has 4 tokens, the data have 5");
  EXPECT_EQ(error_of(job(", context = 3")),
            "job.toml:3:9: the model's context of 3 is shorter than the data's 4 columns");
  EXPECT_EQ(error_of(job(", width = 6, heads = 4")),
            "job.toml:3:33: 'model.width' must be a multiple of 'model.heads'");
  EXPECT_EQ(error_of(job(", dropout = 1.5")), "job.toml:3:35: 'model.dropout' is a probability");
}

TEST_F(GptReaderTest, KeysOfAGptAndOfOtherModelsAreNotInterchangeable) {
  EXPECT_EQ(error_of(job(", widths = [4, 4]")),
            "job.toml:3:34: a gpt has one 'model.width', not 'widths'");
  EXPECT_EQ(error_of(replaced(small_job(), "model = { ", "model = { heads = 2, ")),
            "job.toml:4:11: unknown key 'heads' in 'model'; did you mean 'head'?");
}

TEST_F(GptReaderTest, TextComesFromOnePlaceAndHasANextCharacter) {
  EXPECT_EQ(error_of(job("", "block_size = 4")),
            "job.toml:4:8: text data need either a 'path' or a 'text'");
  EXPECT_EQ(error_of(job("", "text = \"ab\", block_size = 2")),
            "job.toml:4:32: inline text: a text of 2 characters has no block of 2 and a next "
            "character");
}

TEST_F(GptReaderTest, OtherLossesAndMetricsAreRefused) {
  EXPECT_EQ(error_of(replaced(job(), "cross-entropy", "mse")),
            "job.toml:3:9: a gpt predicts the next token: it needs loss.kind = \"cross-entropy\" "
            "and a target for each column, as data.kind = \"text\" has them");
  const std::string evaluated =
      replaced(job("", "text = \"abracadabra\", block_size = 4, holdout = 2"),
               "steps = 1",
               "steps = 1, eval = { metric = \"mse\" }");
  EXPECT_EQ(error_of(evaluated),
            "job.toml:3:9: a gpt is evaluated by 'loop.eval.metric = \"cross-entropy\"'");
}

}  // namespace
}  // namespace lockstep
