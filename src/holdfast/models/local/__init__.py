"""The provider that runs a GGUF file with llama.cpp, in a process of its own."""
