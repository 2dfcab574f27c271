"""Pure: the documents of `/v1` and of the intake, a module for each subject: the bodies of requests and answers."""
