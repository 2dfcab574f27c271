module hookwright.dev/bench

go 1.26.0
