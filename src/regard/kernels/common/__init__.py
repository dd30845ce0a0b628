"""What kernels share: the compiler, threads, vector instructions, and how an operator is made."""
