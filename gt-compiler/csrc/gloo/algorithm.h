// Gloo's headers are not in PyTorch's wheels, and c10d's header includes five of them. The files in
// this folder declare what that header names. Only pointers to these types are held here, and
// libtorch makes and calls them, so their layouts do not matter.
#pragma once
