; Made of `functions.c` by clang: EAGER_BLESS=1 cargo test -p eager-kernels --test library

define double @__nv_rcbrt(double %0) {
  %2 = fpext double %0 to x86_fp80
  %3 = tail call x86_fp80 @cbrtl(x86_fp80 %2)
  %4 = fdiv x86_fp80 0xK3FFF8000000000000000, %3
  %5 = fptrunc x86_fp80 %4 to double
  ret double %5
}

declare x86_fp80 @cbrtl(x86_fp80) #0

define float @__nv_rcbrtf(float %0) {
  %2 = fpext float %0 to double
  %3 = tail call double @cbrt(double %2)
  %4 = fdiv double 1.000000e+00, %3
  %5 = fptrunc double %4 to float
  ret float %5
}

declare double @cbrt(double) #0

define double @__nv_norm3d(double %0, double %1, double %2) {
  %4 = alloca [3 x double], align 8
  store double %0, ptr %4, align 8
  %5 = getelementptr inbounds nuw i8, ptr %4, i64 8
  store double %1, ptr %5, align 8
  %6 = getelementptr inbounds nuw i8, ptr %4, i64 16
  store double %2, ptr %6, align 8
  %7 = call x86_fp80 @length(i32 3, ptr %4)
  %8 = fptrunc x86_fp80 %7 to double
  ret double %8
}

define internal x86_fp80 @length(i32 %0, ptr %1) {
  %3 = icmp sgt i32 %0, 0
  br i1 %3, label %4, label %8

4:                                               
  %5 = zext nneg i32 %0 to i64
  br label %13

6:                                               
  %7 = icmp eq i32 %22, 0
  br label %8

8:                                               
  %9 = phi x86_fp80 [ 0xK00000000000000000000, %2 ], [ %25, %6 ]
  %10 = phi i1 [ true, %2 ], [ %7, %6 ]
  %11 = tail call x86_fp80 @llvm.sqrt.f80(x86_fp80 %9)
  %12 = select i1 %10, x86_fp80 %11, x86_fp80 0xK7FFF8000000000000000
  ret x86_fp80 %12

13:                                              
  %14 = phi i64 [ 0, %4 ], [ %26, %13 ]
  %15 = phi i32 [ 0, %4 ], [ %22, %13 ]
  %16 = phi x86_fp80 [ 0xK00000000000000000000, %4 ], [ %25, %13 ]
  %17 = getelementptr inbounds nuw double, ptr %1, i64 %14
  %18 = load double, ptr %17, align 8
  %19 = tail call double @llvm.fabs.f64(double %18)
  %20 = fcmp oeq double %19, 0x7FF0000000000000
  %21 = zext i1 %20 to i32
  %22 = or i32 %15, %21
  %23 = fpext double %18 to x86_fp80
  %24 = fmul x86_fp80 %23, %23
  %25 = fadd x86_fp80 %16, %24
  %26 = add nuw nsw i64 %14, 1
  %27 = icmp eq i64 %26, %5
  br i1 %27, label %6, label %13
}

define double @__nv_norm4d(double %0, double %1, double %2, double %3) {
  %5 = alloca [4 x double], align 8
  store double %0, ptr %5, align 8
  %6 = getelementptr inbounds nuw i8, ptr %5, i64 8
  store double %1, ptr %6, align 8
  %7 = getelementptr inbounds nuw i8, ptr %5, i64 16
  store double %2, ptr %7, align 8
  %8 = getelementptr inbounds nuw i8, ptr %5, i64 24
  store double %3, ptr %8, align 8
  %9 = call x86_fp80 @length(i32 4, ptr %5)
  %10 = fptrunc x86_fp80 %9 to double
  ret double %10
}

define double @__nv_norm(i32 %0, ptr %1) {
  %3 = tail call x86_fp80 @length(i32 %0, ptr %1)
  %4 = fptrunc x86_fp80 %3 to double
  ret double %4
}

define double @__nv_rhypot(double %0, double %1) {
  %3 = alloca [2 x double], align 8
  store double %0, ptr %3, align 8
  %4 = getelementptr inbounds nuw i8, ptr %3, i64 8
  store double %1, ptr %4, align 8
  %5 = call x86_fp80 @length(i32 2, ptr %3)
  %6 = fdiv x86_fp80 0xK3FFF8000000000000000, %5
  %7 = fptrunc x86_fp80 %6 to double
  ret double %7
}

define double @__nv_rnorm3d(double %0, double %1, double %2) {
  %4 = alloca [3 x double], align 8
  store double %0, ptr %4, align 8
  %5 = getelementptr inbounds nuw i8, ptr %4, i64 8
  store double %1, ptr %5, align 8
  %6 = getelementptr inbounds nuw i8, ptr %4, i64 16
  store double %2, ptr %6, align 8
  %7 = call x86_fp80 @length(i32 3, ptr %4)
  %8 = fdiv x86_fp80 0xK3FFF8000000000000000, %7
  %9 = fptrunc x86_fp80 %8 to double
  ret double %9
}

define double @__nv_rnorm4d(double %0, double %1, double %2, double %3) {
  %5 = alloca [4 x double], align 8
  store double %0, ptr %5, align 8
  %6 = getelementptr inbounds nuw i8, ptr %5, i64 8
  store double %1, ptr %6, align 8
  %7 = getelementptr inbounds nuw i8, ptr %5, i64 16
  store double %2, ptr %7, align 8
  %8 = getelementptr inbounds nuw i8, ptr %5, i64 24
  store double %3, ptr %8, align 8
  %9 = call x86_fp80 @length(i32 4, ptr %5)
  %10 = fdiv x86_fp80 0xK3FFF8000000000000000, %9
  %11 = fptrunc x86_fp80 %10 to double
  ret double %11
}

define double @__nv_rnorm(i32 %0, ptr %1) {
  %3 = tail call x86_fp80 @length(i32 %0, ptr %1)
  %4 = fdiv x86_fp80 0xK3FFF8000000000000000, %3
  %5 = fptrunc x86_fp80 %4 to double
  ret double %5
}

define float @__nv_norm3df(float %0, float %1, float %2) {
  %4 = alloca [3 x float], align 4
  store float %0, ptr %4, align 4
  %5 = getelementptr inbounds nuw i8, ptr %4, i64 4
  store float %1, ptr %5, align 4
  %6 = getelementptr inbounds nuw i8, ptr %4, i64 8
  store float %2, ptr %6, align 4
  %7 = call double @lengthf(i32 3, ptr %4)
  %8 = fptrunc double %7 to float
  ret float %8
}

define internal double @lengthf(i32 %0, ptr %1) {
  %3 = icmp sgt i32 %0, 0
  br i1 %3, label %4, label %10

4:                                               
  %5 = zext nneg i32 %0 to i64
  br label %12

6:                                               
  %7 = icmp eq i32 %21, 0
  %8 = tail call double @llvm.sqrt.f64(double %24)
  %9 = select i1 %7, double %8, double 0x7FF0000000000000
  br label %10

10:                                              
  %11 = phi double [ 0.000000e+00, %2 ], [ %9, %6 ]
  ret double %11

12:                                              
  %13 = phi i64 [ 0, %4 ], [ %25, %12 ]
  %14 = phi i32 [ 0, %4 ], [ %21, %12 ]
  %15 = phi double [ 0.000000e+00, %4 ], [ %24, %12 ]
  %16 = getelementptr inbounds nuw float, ptr %1, i64 %13
  %17 = load float, ptr %16, align 4
  %18 = tail call float @llvm.fabs.f32(float %17)
  %19 = fcmp oeq float %18, 0x7FF0000000000000
  %20 = zext i1 %19 to i32
  %21 = or i32 %14, %20
  %22 = fpext float %17 to double
  %23 = fmul double %22, %22
  %24 = fadd double %15, %23
  %25 = add nuw nsw i64 %13, 1
  %26 = icmp eq i64 %25, %5
  br i1 %26, label %6, label %12
}

define float @__nv_norm4df(float %0, float %1, float %2, float %3) {
  %5 = alloca [4 x float], align 4
  store float %0, ptr %5, align 4
  %6 = getelementptr inbounds nuw i8, ptr %5, i64 4
  store float %1, ptr %6, align 4
  %7 = getelementptr inbounds nuw i8, ptr %5, i64 8
  store float %2, ptr %7, align 4
  %8 = getelementptr inbounds nuw i8, ptr %5, i64 12
  store float %3, ptr %8, align 4
  %9 = call double @lengthf(i32 4, ptr %5)
  %10 = fptrunc double %9 to float
  ret float %10
}

define float @__nv_normf(i32 %0, ptr %1) {
  %3 = tail call double @lengthf(i32 %0, ptr %1)
  %4 = fptrunc double %3 to float
  ret float %4
}

define float @__nv_rhypotf(float %0, float %1) {
  %3 = alloca [2 x float], align 4
  store float %0, ptr %3, align 4
  %4 = getelementptr inbounds nuw i8, ptr %3, i64 4
  store float %1, ptr %4, align 4
  %5 = call double @lengthf(i32 2, ptr %3)
  %6 = fdiv double 1.000000e+00, %5
  %7 = fptrunc double %6 to float
  ret float %7
}

define float @__nv_rnorm3df(float %0, float %1, float %2) {
  %4 = alloca [3 x float], align 4
  store float %0, ptr %4, align 4
  %5 = getelementptr inbounds nuw i8, ptr %4, i64 4
  store float %1, ptr %5, align 4
  %6 = getelementptr inbounds nuw i8, ptr %4, i64 8
  store float %2, ptr %6, align 4
  %7 = call double @lengthf(i32 3, ptr %4)
  %8 = fdiv double 1.000000e+00, %7
  %9 = fptrunc double %8 to float
  ret float %9
}

define float @__nv_rnorm4df(float %0, float %1, float %2, float %3) {
  %5 = alloca [4 x float], align 4
  store float %0, ptr %5, align 4
  %6 = getelementptr inbounds nuw i8, ptr %5, i64 4
  store float %1, ptr %6, align 4
  %7 = getelementptr inbounds nuw i8, ptr %5, i64 8
  store float %2, ptr %7, align 4
  %8 = getelementptr inbounds nuw i8, ptr %5, i64 12
  store float %3, ptr %8, align 4
  %9 = call double @lengthf(i32 4, ptr %5)
  %10 = fdiv double 1.000000e+00, %9
  %11 = fptrunc double %10 to float
  ret float %11
}

define float @__nv_rnormf(i32 %0, ptr %1) {
  %3 = tail call double @lengthf(i32 %0, ptr %1)
  %4 = fdiv double 1.000000e+00, %3
  %5 = fptrunc double %4 to float
  ret float %5
}

define double @__nv_sinpi(double %0) {
  %2 = tail call x86_fp80 @sine(double %0)
  %3 = fptrunc x86_fp80 %2 to double
  ret double %3
}

define internal x86_fp80 @sine(double %0) {
  %2 = fmul double %0, 5.000000e-01
  %3 = tail call double @llvm.rint.f64(double %2)
  %4 = fmul double %3, 2.000000e+00
  %5 = fsub double %0, %4
  %6 = tail call double @llvm.fabs.f64(double %5)
  %7 = fcmp ogt double %6, 5.000000e-01
  %8 = tail call double @llvm.copysign.f64(double 1.000000e+00, double %5)
  %9 = fsub double %8, %5
  %10 = select i1 %7, double %9, double %5
  %11 = fcmp oeq double %10, 0.000000e+00
  br i1 %11, label %12, label %15

12:                                              
  %13 = tail call double @llvm.copysign.f64(double 0.000000e+00, double %0)
  %14 = fpext double %13 to x86_fp80
  br label %19

15:                                              
  %16 = fpext double %10 to x86_fp80
  %17 = fmul x86_fp80 %16, 0xK4000C90FDAA22168C235
  %18 = tail call x86_fp80 @sinl(x86_fp80 %17)
  br label %19

19:                                              
  %20 = phi x86_fp80 [ %14, %12 ], [ %18, %15 ]
  ret x86_fp80 %20
}

define double @__nv_cospi(double %0) {
  %2 = tail call x86_fp80 @cosine(double %0)
  %3 = fptrunc x86_fp80 %2 to double
  ret double %3
}

define internal x86_fp80 @cosine(double %0) {
  %2 = fmul double %0, 5.000000e-01
  %3 = tail call double @llvm.rint.f64(double %2)
  %4 = fmul double %3, 2.000000e+00
  %5 = fsub double %0, %4
  %6 = tail call double @llvm.fabs.f64(double %5)
  %7 = fcmp olt double %6, 2.500000e-01
  br i1 %7, label %8, label %12

8:                                               
  %9 = fpext double %6 to x86_fp80
  %10 = fmul x86_fp80 %9, 0xK4000C90FDAA22168C235
  %11 = tail call x86_fp80 @cosl(x86_fp80 %10)
  br label %25

12:                                              
  %13 = fcmp ugt double %6, 7.500000e-01
  br i1 %13, label %19, label %14

14:                                              
  %15 = fsub double 5.000000e-01, %6
  %16 = fpext double %15 to x86_fp80
  %17 = fmul x86_fp80 %16, 0xK4000C90FDAA22168C235
  %18 = tail call x86_fp80 @sinl(x86_fp80 %17)
  br label %25

19:                                              
  %20 = fsub double 1.000000e+00, %6
  %21 = fpext double %20 to x86_fp80
  %22 = fmul x86_fp80 %21, 0xK4000C90FDAA22168C235
  %23 = tail call x86_fp80 @cosl(x86_fp80 %22)
  %24 = fneg x86_fp80 %23
  br label %25

25:                                              
  %26 = phi x86_fp80 [ %11, %8 ], [ %18, %14 ], [ %24, %19 ]
  ret x86_fp80 %26
}

define float @__nv_sinpif(float %0) {
  %2 = fpext float %0 to double
  %3 = tail call x86_fp80 @sine(double %2)
  %4 = fptrunc x86_fp80 %3 to float
  ret float %4
}

define float @__nv_cospif(float %0) {
  %2 = fpext float %0 to double
  %3 = tail call x86_fp80 @cosine(double %2)
  %4 = fptrunc x86_fp80 %3 to float
  ret float %4
}

define void @__nv_sincospi(double %0, ptr %1, ptr %2) {
  %4 = tail call x86_fp80 @sine(double %0)
  %5 = fptrunc x86_fp80 %4 to double
  store double %5, ptr %1, align 8
  %6 = tail call x86_fp80 @cosine(double %0)
  %7 = fptrunc x86_fp80 %6 to double
  store double %7, ptr %2, align 8
  ret void
}

define void @__nv_sincospif(float %0, ptr %1, ptr %2) {
  %4 = fpext float %0 to double
  %5 = tail call x86_fp80 @sine(double %4)
  %6 = fptrunc x86_fp80 %5 to float
  store float %6, ptr %1, align 4
  %7 = tail call x86_fp80 @cosine(double %4)
  %8 = fptrunc x86_fp80 %7 to float
  store float %8, ptr %2, align 4
  ret void
}

define double @__nv_erfcx(double %0) {
  %2 = fcmp ogt double %0, 2.500000e+01
  %3 = fpext double %0 to x86_fp80
  br i1 %2, label %4, label %6

4:                                               
  %5 = tail call x86_fp80 @erfcx_far(x86_fp80 %3)
  br label %11

6:                                               
  %7 = fmul x86_fp80 %3, %3
  %8 = tail call x86_fp80 @expl(x86_fp80 %7)
  %9 = tail call x86_fp80 @erfcl(x86_fp80 %3)
  %10 = fmul x86_fp80 %8, %9
  br label %11

11:                                              
  %12 = phi x86_fp80 [ %5, %4 ], [ %10, %6 ]
  %13 = fptrunc x86_fp80 %12 to double
  ret double %13
}

define internal x86_fp80 @erfcx_far(x86_fp80 %0) {
  %2 = fmul x86_fp80 %0, 0xK40008000000000000000
  %3 = fmul x86_fp80 %0, %2
  %4 = fdiv x86_fp80 0xK3FFF8000000000000000, %3
  br label %8

5:                                               
  %6 = fmul x86_fp80 %0, 0xK3FFFE2DFC48DA77B553D
  %7 = fdiv x86_fp80 %17, %6
  ret x86_fp80 %7

8:                                               
  %9 = phi i32 [ 1, %1 ], [ %18, %8 ]
  %10 = phi x86_fp80 [ 0xK3FFF8000000000000000, %1 ], [ %17, %8 ]
  %11 = phi x86_fp80 [ 0xK3FFF8000000000000000, %1 ], [ %16, %8 ]
  %12 = shl nuw nsw i32 %9, 1
  %13 = sub nsw i32 1, %12
  %14 = sitofp i32 %13 to x86_fp80
  %15 = fmul x86_fp80 %4, %14
  %16 = fmul x86_fp80 %11, %15
  %17 = fadd x86_fp80 %10, %16
  %18 = add nuw nsw i32 %9, 1
  %19 = icmp eq i32 %18, 10
  br i1 %19, label %5, label %8
}

declare x86_fp80 @expl(x86_fp80) #0

declare x86_fp80 @erfcl(x86_fp80) #0

define float @__nv_erfcxf(float %0) {
  %2 = fcmp ogt float %0, 2.500000e+01
  br i1 %2, label %3, label %7

3:                                               
  %4 = fpext float %0 to x86_fp80
  %5 = tail call x86_fp80 @erfcx_far(x86_fp80 %4)
  %6 = fptrunc x86_fp80 %5 to double
  br label %13

7:                                               
  %8 = fpext float %0 to double
  %9 = fmul double %8, %8
  %10 = tail call double @exp(double %9)
  %11 = tail call double @erfc(double %8)
  %12 = fmul double %10, %11
  br label %13

13:                                              
  %14 = phi double [ %6, %3 ], [ %12, %7 ]
  %15 = fptrunc double %14 to float
  ret float %15
}

declare double @exp(double) #0

declare double @erfc(double) #0

define double @__nv_normcdf(double %0) {
  %2 = fneg double %0
  %3 = fpext double %2 to x86_fp80
  %4 = fdiv x86_fp80 %3, 0xK3FFFB504F333F9DE6484
  %5 = tail call x86_fp80 @erfcl(x86_fp80 %4)
  %6 = fmul x86_fp80 %5, 0xK3FFE8000000000000000
  %7 = fptrunc x86_fp80 %6 to double
  ret double %7
}

define float @__nv_normcdff(float %0) {
  %2 = fneg float %0
  %3 = fpext float %2 to double
  %4 = fdiv double %3, 0x3FF6A09E667F3BCD
  %5 = tail call double @erfc(double %4)
  %6 = fmul double %5, 5.000000e-01
  %7 = fptrunc double %6 to float
  ret float %7
}

define double @__nv_erfcinv(double %0) {
  %2 = fpext double %0 to x86_fp80
  %3 = fsub x86_fp80 0xK3FFF8000000000000000, %2
  %4 = tail call x86_fp80 @inverse(x86_fp80 %2, x86_fp80 %3)
  %5 = fptrunc x86_fp80 %4 to double
  ret double %5
}

define internal x86_fp80 @inverse(x86_fp80 %0, x86_fp80 %1) {
  %3 = fcmp oge x86_fp80 %0, 0xK00000000000000000000
  %4 = fcmp ole x86_fp80 %0, 0xK40008000000000000000
  %5 = and i1 %3, %4
  br i1 %5, label %6, label %14

6:                                               
  %7 = fcmp oeq x86_fp80 %0, 0xK00000000000000000000
  br i1 %7, label %14, label %8

8:                                               
  %9 = fcmp oeq x86_fp80 %0, 0xK40008000000000000000
  br i1 %9, label %14, label %10

10:                                              
  %11 = fcmp oeq x86_fp80 %1, 0xK00000000000000000000
  br i1 %11, label %14, label %12

12:                                              
  %13 = tail call x86_fp80 @erfc_inverse(x86_fp80 %0, x86_fp80 %1)
  br label %14

14:                                              
  %15 = phi x86_fp80 [ 0xK7FFFC000000000000000, %2 ], [ 0xK7FFF8000000000000000, %6 ], [ 0xKFFFF8000000000000000, %8 ], [ %13, %12 ], [ %1, %10 ]
  ret x86_fp80 %15
}

define double @__nv_erfinv(double %0) {
  %2 = fpext double %0 to x86_fp80
  %3 = fsub x86_fp80 0xK3FFF8000000000000000, %2
  %4 = tail call x86_fp80 @inverse(x86_fp80 %3, x86_fp80 %2)
  %5 = fptrunc x86_fp80 %4 to double
  ret double %5
}

define double @__nv_normcdfinv(double %0) {
  %2 = fpext double %0 to x86_fp80
  %3 = fmul x86_fp80 %2, 0xK40008000000000000000
  %4 = fsub x86_fp80 0xK3FFF8000000000000000, %3
  %5 = tail call x86_fp80 @inverse(x86_fp80 %3, x86_fp80 %4)
  %6 = fmul x86_fp80 %5, 0xKBFFFB504F333F9DE6484
  %7 = fptrunc x86_fp80 %6 to double
  ret double %7
}

define float @__nv_erfcinvf(float %0) {
  %2 = fpext float %0 to x86_fp80
  %3 = fsub x86_fp80 0xK3FFF8000000000000000, %2
  %4 = tail call x86_fp80 @inverse(x86_fp80 %2, x86_fp80 %3)
  %5 = fptrunc x86_fp80 %4 to float
  ret float %5
}

define float @__nv_erfinvf(float %0) {
  %2 = fpext float %0 to x86_fp80
  %3 = fsub x86_fp80 0xK3FFF8000000000000000, %2
  %4 = tail call x86_fp80 @inverse(x86_fp80 %3, x86_fp80 %2)
  %5 = fptrunc x86_fp80 %4 to float
  ret float %5
}

define float @__nv_normcdfinvf(float %0) {
  %2 = fpext float %0 to x86_fp80
  %3 = fmul x86_fp80 %2, 0xK40008000000000000000
  %4 = fsub x86_fp80 0xK3FFF8000000000000000, %3
  %5 = tail call x86_fp80 @inverse(x86_fp80 %3, x86_fp80 %4)
  %6 = fmul x86_fp80 %5, 0xKBFFFB504F333F9DE6484
  %7 = fptrunc x86_fp80 %6 to float
  ret float %7
}

define double @__nv_cyl_bessel_i0(double %0) {
  %2 = fpext double %0 to x86_fp80
  %3 = tail call x86_fp80 @bessel_i(i32 0, x86_fp80 %2)
  %4 = fptrunc x86_fp80 %3 to double
  ret double %4
}

define internal x86_fp80 @bessel_i(i32 %0, x86_fp80 %1) {
  %3 = tail call x86_fp80 @llvm.fabs.f80(x86_fp80 %1)
  %4 = fcmp une x86_fp80 %3, 0xK7FFF8000000000000000
  br i1 %4, label %8, label %5

5:                                               
  %6 = icmp eq i32 %0, 0
  %7 = select i1 %6, x86_fp80 %3, x86_fp80 %1
  br label %63

8:                                               
  %9 = fcmp ugt x86_fp80 %3, 0xK4004A000000000000000
  br i1 %9, label %10, label %12

10:                                              
  %11 = shl nuw nsw i32 %0, 2
  br label %46

12:                                              
  %13 = fmul x86_fp80 %1, %1
  %14 = fmul x86_fp80 %13, 0xK3FFD8000000000000000
  br label %20

15:                                              
  %16 = icmp eq i32 %0, 0
  %17 = fmul x86_fp80 %1, %29
  %18 = fmul x86_fp80 %17, 0xK3FFE8000000000000000
  %19 = select i1 %16, x86_fp80 %29, x86_fp80 %18
  br label %63

20:                                              
  %21 = phi x86_fp80 [ 0xK3FFF8000000000000000, %12 ], [ %29, %20 ]
  %22 = phi x86_fp80 [ 0xK3FFF8000000000000000, %12 ], [ %28, %20 ]
  %23 = phi i32 [ 1, %12 ], [ %30, %20 ]
  %24 = add nuw nsw i32 %23, %0
  %25 = mul nuw nsw i32 %24, %23
  %26 = uitofp nneg i32 %25 to x86_fp80
  %27 = fdiv x86_fp80 %14, %26
  %28 = fmul x86_fp80 %22, %27
  %29 = fadd x86_fp80 %21, %28
  %30 = add nuw nsw i32 %23, 1
  %31 = icmp ult i32 %23, 199
  %32 = fmul x86_fp80 %29, 0xK3FBC8000000000000000
  %33 = fcmp ogt x86_fp80 %28, %32
  %34 = select i1 %31, i1 %33, i1 false
  br i1 %34, label %20, label %15

35:                                              
  %36 = tail call x86_fp80 @expl(x86_fp80 %3)
  %37 = fmul x86_fp80 %3, 0xK4001C90FDAA22168C235
  %38 = tail call x86_fp80 @llvm.sqrt.f80(x86_fp80 %37)
  %39 = fdiv x86_fp80 %36, %38
  %40 = fmul x86_fp80 %60, %39
  %41 = icmp ne i32 %0, 0
  %42 = fcmp olt x86_fp80 %1, 0xK00000000000000000000
  %43 = and i1 %41, %42
  %44 = fneg x86_fp80 %40
  %45 = select i1 %43, x86_fp80 %44, x86_fp80 %40
  br label %63

46:                                              
  %47 = phi x86_fp80 [ 0xK3FFF8000000000000000, %10 ], [ %60, %46 ]
  %48 = phi x86_fp80 [ 0xK3FFF8000000000000000, %10 ], [ %59, %46 ]
  %49 = phi i32 [ 1, %10 ], [ %61, %46 ]
  %50 = shl nuw nsw i32 %49, 1
  %51 = add nsw i32 %50, -1
  %52 = mul nsw i32 %51, %51
  %53 = sub nsw i32 %52, %11
  %54 = sitofp i32 %53 to x86_fp80
  %55 = shl nuw nsw i32 %49, 3
  %56 = uitofp nneg i32 %55 to x86_fp80
  %57 = fmul x86_fp80 %3, %56
  %58 = fdiv x86_fp80 %54, %57
  %59 = fmul x86_fp80 %48, %58
  %60 = fadd x86_fp80 %47, %59
  %61 = add nuw nsw i32 %49, 1
  %62 = icmp eq i32 %61, 30
  br i1 %62, label %35, label %46

63:                                              
  %64 = phi x86_fp80 [ %7, %5 ], [ %19, %15 ], [ %45, %35 ]
  ret x86_fp80 %64
}

define double @__nv_cyl_bessel_i1(double %0) {
  %2 = fpext double %0 to x86_fp80
  %3 = tail call x86_fp80 @bessel_i(i32 1, x86_fp80 %2)
  %4 = fptrunc x86_fp80 %3 to double
  ret double %4
}

define float @__nv_cyl_bessel_i0f(float %0) {
  %2 = fpext float %0 to x86_fp80
  %3 = tail call x86_fp80 @bessel_i(i32 0, x86_fp80 %2)
  %4 = fptrunc x86_fp80 %3 to float
  ret float %4
}

define float @__nv_cyl_bessel_i1f(float %0) {
  %2 = fpext float %0 to x86_fp80
  %3 = tail call x86_fp80 @bessel_i(i32 1, x86_fp80 %2)
  %4 = fptrunc x86_fp80 %3 to float
  ret float %4
}

define double @__nv_j0(double %0) {
  %2 = fpext double %0 to x86_fp80
  %3 = tail call x86_fp80 @j0l(x86_fp80 %2)
  %4 = fptrunc x86_fp80 %3 to double
  ret double %4
}

declare x86_fp80 @j0l(x86_fp80) #0

define double @__nv_j1(double %0) {
  %2 = fpext double %0 to x86_fp80
  %3 = tail call x86_fp80 @j1l(x86_fp80 %2)
  %4 = fptrunc x86_fp80 %3 to double
  ret double %4
}

declare x86_fp80 @j1l(x86_fp80) #0

define double @__nv_y0(double %0) {
  %2 = fpext double %0 to x86_fp80
  %3 = tail call x86_fp80 @y0l(x86_fp80 %2)
  %4 = fptrunc x86_fp80 %3 to double
  ret double %4
}

declare x86_fp80 @y0l(x86_fp80) #0

define double @__nv_y1(double %0) {
  %2 = fpext double %0 to x86_fp80
  %3 = tail call x86_fp80 @y1l(x86_fp80 %2)
  %4 = fptrunc x86_fp80 %3 to double
  ret double %4
}

declare x86_fp80 @y1l(x86_fp80) #0

define double @__nv_yn(i32 %0, double %1) {
  %3 = icmp slt i32 %0, 0
  br i1 %3, label %8, label %4

4:                                               
  %5 = fpext double %1 to x86_fp80
  %6 = tail call x86_fp80 @ynl(i32 %0, x86_fp80 %5)
  %7 = fptrunc x86_fp80 %6 to double
  br label %8

8:                                               
  %9 = phi double [ %7, %4 ], [ 0x7FF8000000000000, %2 ]
  ret double %9
}

declare x86_fp80 @ynl(i32, x86_fp80) #0

define float @__nv_ynf(i32 %0, float %1) {
  %3 = icmp slt i32 %0, 0
  br i1 %3, label %8, label %4

4:                                               
  %5 = fpext float %1 to double
  %6 = tail call double @yn(i32 %0, double %5)
  %7 = fptrunc double %6 to float
  br label %8

8:                                               
  %9 = phi float [ %7, %4 ], [ 0x7FF8000000000000, %2 ]
  ret float %9
}

declare double @yn(i32, double) #0

define double @__nv_modf(double %0, ptr %1) {
  %3 = tail call double @llvm.trunc.f64(double %0)
  store double %3, ptr %1, align 8
  %4 = tail call double @llvm.fabs.f64(double %0)
  %5 = fcmp oeq double %4, 0x7FF0000000000000
  %6 = fsub double %0, %3
  %7 = select i1 %5, double 0.000000e+00, double %6
  %8 = tail call double @llvm.copysign.f64(double %7, double %0)
  ret double %8
}

declare double @llvm.trunc.f64(double)

declare double @llvm.copysign.f64(double, double)

define float @__nv_modff(float %0, ptr %1) {
  %3 = tail call float @llvm.trunc.f32(float %0)
  store float %3, ptr %1, align 4
  %4 = tail call float @llvm.fabs.f32(float %0)
  %5 = fcmp oeq float %4, 0x7FF0000000000000
  %6 = fsub float %0, %3
  %7 = select i1 %5, float 0.000000e+00, float %6
  %8 = tail call float @llvm.copysign.f32(float %7, float %0)
  ret float %8
}

declare float @llvm.trunc.f32(float)

declare float @llvm.copysign.f32(float, float)

define double @__nv_frexp(double %0, ptr %1) {
  %3 = tail call double @split(double %0, ptr %1)
  ret double %3
}

define internal double @split(double %0, ptr %1) {
  store i32 0, ptr %1, align 4
  %3 = fcmp oeq double %0, 0.000000e+00
  %4 = fsub double %0, %0
  %5 = fcmp une double %4, 0.000000e+00
  %6 = or i1 %3, %5
  br i1 %6, label %7, label %9

7:                                               
  %8 = fadd double %0, %0
  br label %23

9:                                               
  %10 = fmul double %0, 0x43F0000000000000
  %11 = tail call double @llvm.fabs.f64(double %0)
  %12 = fcmp olt double %11, 0x10000000000000
  %13 = select i1 %12, double %10, double %0
  %14 = bitcast double %13 to i64
  %15 = lshr i64 %14, 52
  %16 = trunc nuw nsw i64 %15 to i32
  %17 = and i32 %16, 2047
  %18 = select i1 %12, i32 -1086, i32 -1022
  %19 = add nsw i32 %18, %17
  store i32 %19, ptr %1, align 4
  %20 = and i64 %14, -9218868437227405313
  %21 = or disjoint i64 %20, 4602678819172646912
  %22 = bitcast i64 %21 to double
  br label %23

23:                                              
  %24 = phi double [ %8, %7 ], [ %22, %9 ]
  ret double %24
}

define float @__nv_frexpf(float %0, ptr %1) {
  %3 = fpext float %0 to double
  %4 = tail call double @split(double %3, ptr %1)
  %5 = fptrunc double %4 to float
  ret float %5
}

define i32 @__nv_ilogb(double %0) {
  %2 = tail call i32 @exponent_of(double %0)
  ret i32 %2
}

define internal i32 @exponent_of(double %0) {
  %2 = alloca i32, align 4
  %3 = fcmp ueq double %0, 0.000000e+00
  br i1 %3, label %11, label %4

4:                                               
  %5 = tail call double @llvm.fabs.f64(double %0)
  %6 = fcmp une double %5, 0x7FF0000000000000
  br i1 %6, label %7, label %11

7:                                               
  %8 = call double @split(double %0, ptr %2)
  %9 = load i32, ptr %2, align 4
  %10 = add nsw i32 %9, -1
  br label %11

11:                                              
  %12 = phi i32 [ %10, %7 ], [ -2147483648, %1 ], [ 2147483647, %4 ]
  ret i32 %12
}

define i32 @__nv_ilogbf(float %0) {
  %2 = fpext float %0 to double
  %3 = tail call i32 @exponent_of(double %2)
  ret i32 %3
}

define double @__nv_nan(ptr readnone %0) {
  ret double 0x7FF8000000000000
}

define float @__nv_nanf(ptr readnone %0) {
  ret float 0x7FF8000000000000
}

define double @__nv_rcp64h(double %0) {
  %2 = fdiv double 1.000000e+00, %0
  %3 = bitcast double %2 to i64
  %4 = and i64 %3, -4294967296
  %5 = bitcast i64 %4 to double
  ret double %5
}

declare x86_fp80 @llvm.sqrt.f80(x86_fp80)

declare double @llvm.sqrt.f64(double)

declare double @llvm.rint.f64(double)

declare double @llvm.fabs.f64(double)

declare x86_fp80 @sinl(x86_fp80) #0

declare x86_fp80 @cosl(x86_fp80) #0

define internal x86_fp80 @erfc_inverse(x86_fp80 %0, x86_fp80 %1) {
  %3 = fcmp ogt x86_fp80 %0, 0xK3FFF8000000000000000
  %4 = fsub x86_fp80 0xK40008000000000000000, %0
  %5 = fneg x86_fp80 %1
  %6 = select i1 %3, x86_fp80 %5, x86_fp80 %1
  %7 = select i1 %3, x86_fp80 %4, x86_fp80 %0
  %8 = fsub x86_fp80 0xK40008000000000000000, %7
  %9 = fmul x86_fp80 %7, %8
  %10 = tail call x86_fp80 @logl(x86_fp80 %9)
  %11 = fneg x86_fp80 %10
  %12 = fcmp ugt x86_fp80 %10, 0xKC0038000000000000000
  br i1 %12, label %19, label %13

13:                                              
  %14 = fmul x86_fp80 %10, 0xKC000C90FDAA22168C235
  %15 = tail call x86_fp80 @logl(x86_fp80 %14)
  %16 = fmul x86_fp80 %15, 0xK3FFE8000000000000000
  %17 = fsub x86_fp80 %11, %16
  %18 = tail call x86_fp80 @llvm.sqrt.f80(x86_fp80 %17)
  br label %62

19:                                              
  %20 = fcmp ogt x86_fp80 %10, 0xKC001A000000000000000
  br i1 %20, label %21, label %39

21:                                              
  %22 = fsub x86_fp80 0xKC000A000000000000000, %10
  %23 = fmul x86_fp80 %22, 0xK3FE5F16587FC123F4EF8
  %24 = fadd x86_fp80 %23, 0xK3FE9B84B35FF8865E45A
  %25 = fmul x86_fp80 %22, %24
  %26 = fadd x86_fp80 %25, 0xKBFECEC7356FB33508299
  %27 = fmul x86_fp80 %22, %26
  %28 = fadd x86_fp80 %27, 0xKBFED935AC102247379D9
  %29 = fmul x86_fp80 %22, %28
  %30 = fadd x86_fp80 %29, 0xK3FF2E532DB02CA519EB6
  %31 = fmul x86_fp80 %22, %30
  %32 = fadd x86_fp80 %31, 0xKBFF5A454080109A20B9F
  %33 = fmul x86_fp80 %22, %32
  %34 = fadd x86_fp80 %33, 0xKBFF788E4EF0229C4803D
  %35 = fmul x86_fp80 %22, %34
  %36 = fadd x86_fp80 %35, 0xK3FFCFC8F63014E810ED6
  %37 = fmul x86_fp80 %22, %36
  %38 = fadd x86_fp80 %37, 0xK3FFFC02E2EFCEDA6E202
  br label %58

39:                                              
  %40 = tail call x86_fp80 @llvm.sqrt.f80(x86_fp80 %11)
  %41 = fadd x86_fp80 %40, 0xKC000C000000000000000
  %42 = fmul x86_fp80 %41, 0xK3FF2D1F09AF9E375F1C5
  %43 = fsub x86_fp80 0xK3FF1D3B56B0B3F498BB3, %42
  %44 = fmul x86_fp80 %41, %43
  %45 = fadd x86_fp80 %44, 0xK3FF5B0DC7200805CF772
  %46 = fmul x86_fp80 %41, %45
  %47 = fadd x86_fp80 %46, 0xKBFF6F0BDE7039542EB35
  %48 = fmul x86_fp80 %41, %47
  %49 = fadd x86_fp80 %48, 0xK3FF7BC127AFF6C30A6A3
  %50 = fmul x86_fp80 %41, %49
  %51 = fadd x86_fp80 %50, 0xKBFF7F9C5D6FFCFB03651
  %52 = fmul x86_fp80 %41, %51
  %53 = fadd x86_fp80 %52, 0xK3FF89AA57DFEB5898387
  %54 = fmul x86_fp80 %41, %53
  %55 = fadd x86_fp80 %54, 0xK3FFF8036DB0879CC1ED2
  %56 = fmul x86_fp80 %41, %55
  %57 = fadd x86_fp80 %56, 0xK4000B54F7E020E7812E1
  br label %58

58:                                              
  %59 = phi x86_fp80 [ %38, %21 ], [ %57, %39 ]
  %60 = fsub x86_fp80 0xK3FFF8000000000000000, %7
  %61 = fmul x86_fp80 %60, %59
  br label %62

62:                                              
  %63 = phi x86_fp80 [ %18, %13 ], [ %61, %58 ]
  %64 = fcmp olt x86_fp80 %7, 0xK3FFE8000000000000000
  br label %68

65:                                              
  %66 = fneg x86_fp80 %87
  %67 = select i1 %3, x86_fp80 %66, x86_fp80 %87
  ret x86_fp80 %67

68:                                              
  %69 = phi x86_fp80 [ %63, %62 ], [ %87, %77 ]
  %70 = phi i32 [ 0, %62 ], [ %88, %77 ]
  br i1 %64, label %71, label %74

71:                                              
  %72 = tail call x86_fp80 @erfcl(x86_fp80 %69)
  %73 = fsub x86_fp80 %7, %72
  br label %77

74:                                              
  %75 = tail call x86_fp80 @erfl(x86_fp80 %69)
  %76 = fsub x86_fp80 %75, %6
  br label %77

77:                                              
  %78 = phi x86_fp80 [ %73, %71 ], [ %76, %74 ]
  %79 = fmul x86_fp80 %78, 0xK3FFFE2DFC48DA77B553D
  %80 = fmul x86_fp80 %79, 0xK3FFE8000000000000000
  %81 = fmul x86_fp80 %69, %69
  %82 = tail call x86_fp80 @expl(x86_fp80 %81)
  %83 = fmul x86_fp80 %82, %80
  %84 = fmul x86_fp80 %69, %83
  %85 = fadd x86_fp80 %84, 0xK3FFF8000000000000000
  %86 = fdiv x86_fp80 %83, %85
  %87 = fsub x86_fp80 %69, %86
  %88 = add nuw nsw i32 %70, 1
  %89 = icmp eq i32 %88, 3
  br i1 %89, label %65, label %68
}

declare x86_fp80 @erfl(x86_fp80) #0

declare x86_fp80 @logl(x86_fp80) #0

declare x86_fp80 @llvm.fabs.f80(x86_fp80)

declare float @llvm.fabs.f32(float)

attributes #0 = { nounwind willreturn memory(none) }
