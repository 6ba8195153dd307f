package main

import "io"

func chart(w io.Writer, rs []result) {}
