// Modules, layers, losses and initial weights, with the differentiable functions under them.
//
//   Generator seed(0);
//   nn::Linear layer(rank.runtime(), 16, 32, seed);
#pragma once

#include "lockstep/autograd/autocast.h"
#include "lockstep/autograd/checkpoint.h"
#include "lockstep/autograd/variable.h"
#include "lockstep/functional/attention.h"
#include "lockstep/functional/cast.h"
#include "lockstep/functional/functions.h"
#include "lockstep/functional/image_functions.h"
#include "lockstep/functional/layer_functions.h"
#include "lockstep/functional/operators.h"
#include "lockstep/functional/pieces.h"
#include "lockstep/models/gpt.h"
#include "lockstep/models/two_head.h"
#include "lockstep/nn/activations.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/nn/convolution.h"
#include "lockstep/nn/dropout.h"
#include "lockstep/nn/embedding.h"
#include "lockstep/nn/init.h"
#include "lockstep/nn/layer_norm.h"
#include "lockstep/nn/linear.h"
#include "lockstep/nn/losses.h"
#include "lockstep/nn/module.h"
#include "lockstep/nn/pooling.h"
#include "lockstep/nn/sequential.h"
#include "lockstep/random/generator.h"
