"""The pictures of the papers, made anew. The library does not import them: the command does, when it is asked."""
