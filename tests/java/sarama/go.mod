module odradek.example/sarama

go 1.21

require github.com/IBM/sarama v1.43.3
