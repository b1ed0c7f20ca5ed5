// Found by a C++ compiler only where libtorch's own headers are not: `.cargo/config.toml` puts this folder last in its search.
#if __has_include_next(<torch/torch.h>)
#include_next <torch/torch.h>
#else
// A missing include, unlike an #error, ends the compilation, so that the reason is the only thing said.
#include <no libtorch in the folder LIBTORCH, which is .libtorch/cpu unless it is set: run `cargo xtask libtorch`>
#endif
