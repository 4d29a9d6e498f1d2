"""What each switch changes in a running program: functions of one value, called right after the
program has imported PyTorch. They import PyTorch themselves, and change its classes and settings,
never the program's files."""
