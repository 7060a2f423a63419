; Made of `together.c` by clang: EAGER_BLESS=1 cargo test -p eager-kernels --test library

%struct.anon = type { ptr, i32, i32 }
%struct.Place = type { i32, i32, i32, i32, i32 }

define i32 @eagerwarp_ready(ptr %0, ptr %1, i32 %2) {
  %4 = alloca [32 x i32], align 16
  %5 = alloca [32 x i32], align 16
  %6 = alloca [32 x i32], align 16
  %7 = alloca [32 x i8], align 16
  %8 = alloca [32 x %struct.anon], align 16
  %9 = getelementptr inbounds nuw i8, ptr %0, i64 896
  br label %10

10:                                              
  %11 = phi i64 [ 0, %3 ], [ %20, %10 ]
  %12 = phi i32 [ 0, %3 ], [ %19, %10 ]
  %13 = getelementptr inbounds nuw i32, ptr %9, i64 %11
  %14 = load i32, ptr %13, align 4
  %15 = icmp eq i32 %14, 0
  %16 = zext i1 %15 to i32
  %17 = trunc nuw nsw i64 %11 to i32
  %18 = shl nuw i32 %16, %17
  %19 = or i32 %18, %12
  %20 = add nuw nsw i64 %11, 1
  %21 = icmp eq i64 %20, 32
  br i1 %21, label %22, label %10

22:                                              
  %23 = xor i32 %19, -1
  %24 = icmp eq i32 %19, -1
  br i1 %24, label %28, label %25

25:                                              
  %26 = getelementptr inbounds nuw i8, ptr %0, i64 256
  %27 = getelementptr inbounds nuw i8, ptr %0, i64 256
  br label %38

28:                                              
  %29 = phi i32 [ 0, %22 ], [ %165, %170 ]
  %30 = phi i32 [ 0, %22 ], [ %167, %170 ]
  %31 = phi i32 [ 0, %22 ], [ %168, %170 ]
  %32 = icmp eq i32 %30, 0
  br i1 %32, label %172, label %33

33:                                              
  %34 = getelementptr inbounds nuw i8, ptr %0, i64 640
  %35 = getelementptr inbounds nuw i8, ptr %0, i64 384
  %36 = getelementptr inbounds nuw i8, ptr %0, i64 512
  %37 = zext i32 %30 to i64
  br label %178

38:                                              
  %39 = phi i32 [ %23, %25 ], [ %169, %170 ]
  %40 = phi i32 [ 0, %25 ], [ %168, %170 ]
  %41 = phi i32 [ 0, %25 ], [ %167, %170 ]
  %42 = phi i32 [ -1, %25 ], [ %166, %170 ]
  %43 = phi i32 [ 0, %25 ], [ %165, %170 ]
  %44 = tail call i32 @llvm.cttz.i32(i32 %39, i1 true)
  %45 = zext nneg i32 %44 to i64
  %46 = getelementptr inbounds nuw i32, ptr %9, i64 %45
  %47 = load i32, ptr %46, align 4
  br label %48

48:                                              
  %49 = phi i64 [ 0, %38 ], [ %58, %48 ]
  %50 = phi i32 [ 0, %38 ], [ %57, %48 ]
  %51 = getelementptr inbounds nuw i32, ptr %9, i64 %49
  %52 = load i32, ptr %51, align 4
  %53 = icmp eq i32 %52, %47
  %54 = zext i1 %53 to i32
  %55 = trunc nuw nsw i64 %49 to i32
  %56 = shl nuw i32 %54, %55
  %57 = or i32 %56, %50
  %58 = add nuw nsw i64 %49, 1
  %59 = icmp eq i64 %58, 32
  br i1 %59, label %60, label %48

60:                                              
  %61 = and i32 %57, %39
  %62 = icmp ugt i32 %47, %2
  br i1 %62, label %63, label %66

63:                                              
  %64 = or i32 %61, %40
  %65 = xor i32 %61, %39
  br label %163

66:                                              
  %67 = add i32 %47, -1
  %68 = zext i32 %67 to i64
  %69 = getelementptr inbounds nuw %struct.Place, ptr %1, i64 %68
  %70 = load i32, ptr %69, align 4
  %71 = icmp eq i32 %70, 23
  br i1 %71, label %72, label %82

72:                                              
  %73 = getelementptr inbounds nuw i8, ptr %69, i64 12
  %74 = load i32, ptr %73, align 4
  %75 = icmp ult i32 %74, %42
  %76 = select i1 %75, i32 0, i32 %43
  %77 = tail call i32 @llvm.umin.i32(i32 %74, i32 %42)
  %78 = icmp ugt i32 %74, %42
  %79 = select i1 %78, i32 0, i32 %61
  %80 = or i32 %76, %79
  %81 = xor i32 %61, %39
  br label %163

82:                                              
  %83 = add i32 %70, -24
  %84 = icmp ult i32 %83, -20
  br i1 %84, label %85, label %87

85:                                              
  %86 = xor i32 %61, %39
  br label %163

87:                                              
  %88 = getelementptr inbounds nuw i8, ptr %69, i64 8
  %89 = load i32, ptr %88, align 4
  %90 = getelementptr inbounds nuw i8, ptr %69, i64 4
  %91 = load i32, ptr %90, align 4
  %92 = and i32 %91, 1
  %93 = icmp eq i32 %92, 0
  br i1 %93, label %94, label %111

94:                                              
  %95 = getelementptr inbounds nuw i32, ptr %26, i64 %45
  %96 = load i32, ptr %95, align 4
  br label %97

97:                                              
  %98 = phi i64 [ 0, %94 ], [ %107, %97 ]
  %99 = phi i32 [ 0, %94 ], [ %106, %97 ]
  %100 = getelementptr inbounds nuw i32, ptr %26, i64 %98
  %101 = load i32, ptr %100, align 4
  %102 = icmp eq i32 %101, %96
  %103 = zext i1 %102 to i32
  %104 = trunc nuw nsw i64 %98 to i32
  %105 = shl nuw i32 %103, %104
  %106 = or i32 %105, %99
  %107 = add nuw nsw i64 %98, 1
  %108 = icmp eq i64 %107, 32
  br i1 %108, label %109, label %97

109:                                             
  %110 = and i32 %106, %61
  br label %111

111:                                             
  %112 = phi i32 [ %89, %87 ], [ %96, %109 ]
  %113 = phi i32 [ %61, %87 ], [ %110, %109 ]
  %114 = xor i32 %113, -1
  %115 = and i32 %39, %114
  %116 = and i32 %112, %23
  %117 = and i32 %116, %114
  %118 = icmp eq i32 %117, 0
  br i1 %118, label %149, label %119

119:                                             
  %120 = phi i32 [ %147, %145 ], [ %117, %111 ]
  %121 = tail call i32 @llvm.cttz.i32(i32 %120, i1 true)
  %122 = zext nneg i32 %121 to i64
  %123 = getelementptr inbounds nuw i32, ptr %9, i64 %122
  %124 = load i32, ptr %123, align 4
  %125 = icmp ugt i32 %124, %2
  br i1 %125, label %143, label %126

126:                                             
  %127 = add i32 %124, -1
  %128 = zext i32 %127 to i64
  %129 = getelementptr inbounds nuw %struct.Place, ptr %1, i64 %128
  %130 = load i32, ptr %129, align 4
  %131 = icmp eq i32 %130, %70
  br i1 %131, label %132, label %143

132:                                             
  %133 = getelementptr inbounds nuw i8, ptr %129, i64 4
  %134 = load i32, ptr %133, align 4
  %135 = and i32 %134, 1
  %136 = icmp eq i32 %135, 0
  %137 = getelementptr inbounds nuw i8, ptr %129, i64 8
  %138 = getelementptr inbounds nuw i32, ptr %27, i64 %122
  %139 = select i1 %136, ptr %138, ptr %137
  %140 = load i32, ptr %139, align 4
  %141 = icmp eq i32 %140, %112
  %142 = zext i1 %141 to i32
  br label %143

143:                                             
  %144 = phi i32 [ %142, %132 ], [ 6, %126 ], [ 6, %119 ]
  switch i32 %144, label %149 [
    i32 0, label %145
    i32 6, label %145
  ]

145:                                             
  %146 = add i32 %120, -1
  %147 = and i32 %146, %120
  %148 = icmp eq i32 %147, 0
  br i1 %148, label %149, label %119

149:                                             
  %150 = phi i32 [ 4, %111 ], [ %144, %143 ], [ 4, %145 ]
  %151 = icmp eq i32 %150, 4
  br i1 %151, label %152, label %163

152:                                             
  %153 = icmp eq i32 %117, 0
  br i1 %153, label %154, label %163

154:                                             
  %155 = zext i32 %41 to i64
  %156 = getelementptr inbounds nuw %struct.anon, ptr %8, i64 %155
  store ptr %69, ptr %156, align 16
  %157 = getelementptr inbounds nuw i8, ptr %156, i64 8
  store i32 %116, ptr %157, align 8
  %158 = xor i32 %116, -1
  %159 = and i32 %113, %158
  %160 = getelementptr inbounds nuw i8, ptr %156, i64 12
  store i32 %159, ptr %160, align 4
  %161 = add i32 %41, 1
  %162 = or i32 %113, %40
  br label %163

163:                                             
  %164 = phi i32 [ 2, %63 ], [ 2, %72 ], [ 2, %85 ], [ %150, %149 ], [ 0, %154 ], [ 2, %152 ]
  %165 = phi i32 [ %43, %63 ], [ %80, %72 ], [ %43, %85 ], [ %43, %149 ], [ %43, %154 ], [ %43, %152 ]
  %166 = phi i32 [ %42, %63 ], [ %77, %72 ], [ %42, %85 ], [ %42, %149 ], [ %42, %154 ], [ %42, %152 ]
  %167 = phi i32 [ %41, %63 ], [ %41, %72 ], [ %41, %85 ], [ %41, %149 ], [ %161, %154 ], [ %41, %152 ]
  %168 = phi i32 [ %64, %63 ], [ %40, %72 ], [ %40, %85 ], [ %40, %149 ], [ %162, %154 ], [ %40, %152 ]
  %169 = phi i32 [ %65, %63 ], [ %81, %72 ], [ %86, %85 ], [ %115, %149 ], [ %115, %154 ], [ %115, %152 ]
  switch i32 %164, label %362 [
    i32 0, label %170
    i32 2, label %170
  ]

170:                                             
  %171 = icmp eq i32 %169, 0
  br i1 %171, label %28, label %38

172:                                             
  %173 = icmp eq i32 %31, 0
  br i1 %173, label %174, label %362

174:                                             
  %175 = icmp eq i32 %29, 0
  br i1 %175, label %362, label %176

176:                                             
  %177 = getelementptr inbounds nuw i8, ptr %0, i64 640
  br label %354

178:                                             
  %179 = phi i64 [ 0, %33 ], [ %352, %351 ]
  %180 = getelementptr inbounds nuw %struct.anon, ptr %8, i64 %179
  %181 = load ptr, ptr %180, align 16
  %182 = getelementptr inbounds nuw i8, ptr %180, i64 8
  %183 = load i32, ptr %182, align 8
  %184 = load i32, ptr %181, align 4
  %185 = icmp eq i32 %184, 4
  br i1 %185, label %351, label %186

186:                                             
  %187 = icmp ult i32 %184, 9
  %188 = getelementptr inbounds nuw i8, ptr %180, i64 12
  %189 = load i32, ptr %188, align 4
  %190 = icmp eq i32 %189, 0
  br i1 %187, label %191, label %341

191:                                             
  %192 = tail call i32 @llvm.ctlz.i32(i32 %189, i1 true)
  %193 = xor i32 %192, 31
  %194 = shl nuw i32 1, %193
  %195 = select i1 %190, i32 0, i32 %194
  %196 = getelementptr inbounds nuw i8, ptr %181, i64 12
  %197 = load i32, ptr %196, align 4
  %198 = getelementptr inbounds nuw i8, ptr %181, i64 4
  %199 = load i32, ptr %198, align 4
  %200 = and i32 %199, 2
  %201 = icmp eq i32 %200, 0
  br i1 %201, label %207, label %202

202:                                             
  %203 = phi i64 [ %205, %202 ], [ 0, %191 ]
  %204 = getelementptr inbounds nuw i32, ptr %4, i64 %203
  store i32 %197, ptr %204, align 4
  %205 = add nuw nsw i64 %203, 1
  %206 = icmp eq i64 %205, 32
  br i1 %206, label %207, label %202

207:                                             
  %208 = phi ptr [ %35, %191 ], [ %4, %202 ]
  %209 = getelementptr inbounds nuw i8, ptr %181, i64 16
  %210 = load i32, ptr %209, align 4
  %211 = and i32 %199, 4
  %212 = icmp eq i32 %211, 0
  br i1 %212, label %218, label %213

213:                                             
  %214 = phi i64 [ %216, %213 ], [ 0, %207 ]
  %215 = getelementptr inbounds nuw i32, ptr %5, i64 %214
  store i32 %210, ptr %215, align 4
  %216 = add nuw nsw i64 %214, 1
  %217 = icmp eq i64 %216, 32
  br i1 %217, label %218, label %213

218:                                             
  %219 = phi ptr [ %36, %207 ], [ %5, %213 ]
  switch i32 %184, label %289 [
    i32 5, label %220
    i32 6, label %243
    i32 7, label %266
  ]

220:                                             
  %221 = phi i64 [ %241, %220 ], [ 0, %218 ]
  %222 = getelementptr inbounds nuw i32, ptr %208, i64 %221
  %223 = load i32, ptr %222, align 4
  %224 = and i32 %223, 31
  %225 = getelementptr inbounds nuw i32, ptr %219, i64 %221
  %226 = load i32, ptr %225, align 4
  %227 = lshr i32 %226, 8
  %228 = and i32 %227, 31
  %229 = trunc nuw nsw i64 %221 to i32
  %230 = and i32 %228, %229
  %231 = and i32 %226, 31
  %232 = xor i32 %228, -1
  %233 = and i32 %231, %232
  %234 = or i32 %230, %233
  %235 = sub nsw i32 %229, %224
  %236 = icmp sge i32 %235, %234
  %237 = select i1 %236, i32 %235, i32 %229
  %238 = getelementptr inbounds nuw i32, ptr %6, i64 %221
  store i32 %237, ptr %238, align 4
  %239 = zext i1 %236 to i8
  %240 = getelementptr inbounds nuw i8, ptr %7, i64 %221
  store i8 %239, ptr %240, align 1
  %241 = add nuw nsw i64 %221, 1
  %242 = icmp eq i64 %241, 32
  br i1 %242, label %311, label %220

243:                                             
  %244 = phi i64 [ %264, %243 ], [ 0, %218 ]
  %245 = getelementptr inbounds nuw i32, ptr %208, i64 %244
  %246 = load i32, ptr %245, align 4
  %247 = and i32 %246, 31
  %248 = getelementptr inbounds nuw i32, ptr %219, i64 %244
  %249 = load i32, ptr %248, align 4
  %250 = lshr i32 %249, 8
  %251 = and i32 %250, 31
  %252 = trunc nuw nsw i64 %244 to i32
  %253 = and i32 %251, %252
  %254 = and i32 %249, 31
  %255 = xor i32 %251, -1
  %256 = and i32 %254, %255
  %257 = or i32 %253, %256
  %258 = add nuw nsw i32 %247, %252
  %259 = icmp ule i32 %258, %257
  %260 = select i1 %259, i32 %258, i32 %252
  %261 = getelementptr inbounds nuw i32, ptr %6, i64 %244
  store i32 %260, ptr %261, align 4
  %262 = zext i1 %259 to i8
  %263 = getelementptr inbounds nuw i8, ptr %7, i64 %244
  store i8 %262, ptr %263, align 1
  %264 = add nuw nsw i64 %244, 1
  %265 = icmp eq i64 %264, 32
  br i1 %265, label %311, label %243

266:                                             
  %267 = phi i64 [ %287, %266 ], [ 0, %218 ]
  %268 = getelementptr inbounds nuw i32, ptr %208, i64 %267
  %269 = load i32, ptr %268, align 4
  %270 = and i32 %269, 31
  %271 = getelementptr inbounds nuw i32, ptr %219, i64 %267
  %272 = load i32, ptr %271, align 4
  %273 = lshr i32 %272, 8
  %274 = and i32 %273, 31
  %275 = trunc nuw nsw i64 %267 to i32
  %276 = and i32 %274, %275
  %277 = and i32 %272, 31
  %278 = xor i32 %274, -1
  %279 = and i32 %277, %278
  %280 = or i32 %276, %279
  %281 = xor i32 %270, %275
  %282 = icmp ule i32 %281, %280
  %283 = select i1 %282, i32 %281, i32 %275
  %284 = getelementptr inbounds nuw i32, ptr %6, i64 %267
  store i32 %283, ptr %284, align 4
  %285 = zext i1 %282 to i8
  %286 = getelementptr inbounds nuw i8, ptr %7, i64 %267
  store i8 %285, ptr %286, align 1
  %287 = add nuw nsw i64 %267, 1
  %288 = icmp eq i64 %287, 32
  br i1 %288, label %311, label %266

289:                                             
  %290 = phi i64 [ %309, %289 ], [ 0, %218 ]
  %291 = getelementptr inbounds nuw i32, ptr %208, i64 %290
  %292 = load i32, ptr %291, align 4
  %293 = getelementptr inbounds nuw i32, ptr %219, i64 %290
  %294 = load i32, ptr %293, align 4
  %295 = lshr i32 %294, 8
  %296 = and i32 %295, 31
  %297 = trunc nuw nsw i64 %290 to i32
  %298 = and i32 %296, %297
  %299 = xor i32 %296, 31
  %300 = and i32 %299, %294
  %301 = or i32 %300, %298
  %302 = and i32 %299, %292
  %303 = or i32 %302, %298
  %304 = icmp ule i32 %303, %301
  %305 = select i1 %304, i32 %303, i32 %297
  %306 = getelementptr inbounds nuw i32, ptr %6, i64 %290
  store i32 %305, ptr %306, align 4
  %307 = zext i1 %304 to i8
  %308 = getelementptr inbounds nuw i8, ptr %7, i64 %290
  store i8 %307, ptr %308, align 1
  %309 = add nuw nsw i64 %290, 1
  %310 = icmp eq i64 %309, 32
  br i1 %310, label %311, label %289

311:                                             
  %312 = or i32 %189, %183
  %313 = icmp eq i32 %312, 0
  br i1 %313, label %340, label %314

314:                                             
  %315 = phi i32 [ %338, %314 ], [ %312, %311 ]
  %316 = tail call i32 @llvm.cttz.i32(i32 %315, i1 true)
  %317 = zext nneg i32 %316 to i64
  %318 = getelementptr inbounds nuw i32, ptr %6, i64 %317
  %319 = load i32, ptr %318, align 4
  %320 = shl nuw i32 1, %316
  %321 = and i32 %320, %183
  %322 = icmp eq i32 %321, 0
  %323 = select i1 %322, i32 %320, i32 %195
  %324 = or i32 %323, %183
  %325 = shl nuw i32 1, %319
  %326 = and i32 %324, %325
  %327 = icmp eq i32 %326, 0
  %328 = select i1 %327, i32 %316, i32 %319
  %329 = sext i32 %328 to i64
  %330 = getelementptr inbounds i32, ptr %0, i64 %329
  %331 = load i32, ptr %330, align 4
  %332 = getelementptr inbounds nuw i32, ptr %34, i64 %317
  store i32 %331, ptr %332, align 4
  %333 = getelementptr inbounds nuw i8, ptr %7, i64 %317
  %334 = load i8, ptr %333, align 1
  %335 = getelementptr inbounds nuw i8, ptr %0, i64 %317
  %336 = getelementptr inbounds nuw i8, ptr %335, i64 768
  store i8 %334, ptr %336, align 1
  %337 = add i32 %315, -1
  %338 = and i32 %337, %315
  %339 = icmp eq i32 %338, 0
  br i1 %339, label %340, label %314

340:                                             
  br label %351

341:                                             
  br i1 %190, label %342, label %343

342:                                             
  tail call void @complete(ptr %0, ptr %181, i32 %183)
  br label %351

343:                                             
  %344 = phi i32 [ %349, %343 ], [ %189, %341 ]
  %345 = sub i32 0, %344
  %346 = and i32 %344, %345
  %347 = or i32 %346, %183
  tail call void @complete(ptr %0, ptr %181, i32 %347)
  %348 = add i32 %344, -1
  %349 = and i32 %348, %344
  %350 = icmp eq i32 %349, 0
  br i1 %350, label %351, label %343

351:                                             
  %352 = add nuw nsw i64 %179, 1
  %353 = icmp eq i64 %352, %37
  br i1 %353, label %172, label %178

354:                                             
  %355 = phi i32 [ %29, %176 ], [ %360, %354 ]
  %356 = tail call i32 @llvm.cttz.i32(i32 %355, i1 true)
  %357 = zext nneg i32 %356 to i64
  %358 = getelementptr inbounds nuw i32, ptr %177, i64 %357
  store i32 %29, ptr %358, align 4
  %359 = add i32 %355, -1
  %360 = and i32 %359, %355
  %361 = icmp eq i32 %360, 0
  br i1 %361, label %362, label %354

362:                                             
  %363 = phi i32 [ 0, %174 ], [ %31, %172 ], [ %29, %354 ], [ 0, %163 ]
  ret i32 %363
}

declare i32 @llvm.cttz.i32(i32, i1 immarg)

define internal void @complete(ptr %0, ptr %1, i32 %2) {
  %4 = getelementptr inbounds nuw i8, ptr %0, i64 128
  %5 = getelementptr inbounds nuw i8, ptr %0, i64 640
  %6 = getelementptr inbounds nuw i8, ptr %0, i64 768
  %7 = load i32, ptr %1, align 4
  %8 = icmp ult i32 %7, 13
  br i1 %8, label %11, label %35

9:                                               
  %10 = and i32 %21, %2
  switch i32 %7, label %73 [
    i32 9, label %24
    i32 10, label %27
    i32 11, label %30
  ]

11:                                              
  %12 = phi i64 [ %22, %11 ], [ 0, %3 ]
  %13 = phi i32 [ %21, %11 ], [ 0, %3 ]
  %14 = getelementptr inbounds nuw i8, ptr %0, i64 %12
  %15 = getelementptr inbounds nuw i8, ptr %14, i64 800
  %16 = load i8, ptr %15, align 1
  %17 = and i8 %16, 1
  %18 = zext nneg i8 %17 to i32
  %19 = trunc nuw nsw i64 %12 to i32
  %20 = shl nuw i32 %18, %19
  %21 = or i32 %20, %13
  %22 = add nuw nsw i64 %12, 1
  %23 = icmp eq i64 %22, 32
  br i1 %23, label %9, label %11

24:                                              
  %25 = icmp eq i32 %10, %2
  %26 = zext i1 %25 to i32
  br label %73

27:                                              
  %28 = icmp ne i32 %10, 0
  %29 = zext i1 %28 to i32
  br label %73

30:                                              
  %31 = icmp eq i32 %10, 0
  %32 = icmp eq i32 %10, %2
  %33 = or i1 %31, %32
  %34 = zext i1 %33 to i32
  br label %73

35:                                              
  %36 = icmp ugt i32 %7, 14
  br i1 %36, label %37, label %73

37:                                              
  %38 = tail call i32 @llvm.cttz.i32(i32 %2, i1 true)
  %39 = zext nneg i32 %38 to i64
  %40 = getelementptr inbounds nuw i32, ptr %0, i64 %39
  %41 = load i32, ptr %40, align 4
  %42 = add i32 %2, -1
  %43 = and i32 %42, %2
  %44 = icmp eq i32 %43, 0
  br i1 %44, label %73, label %45

45:                                              
  %46 = phi i32 [ %69, %68 ], [ %41, %37 ]
  %47 = phi i32 [ %71, %68 ], [ %43, %37 ]
  %48 = tail call i32 @llvm.cttz.i32(i32 %47, i1 true)
  %49 = zext nneg i32 %48 to i64
  %50 = getelementptr inbounds nuw i32, ptr %0, i64 %49
  %51 = load i32, ptr %50, align 4
  switch i32 %7, label %66 [
    i32 15, label %52
    i32 16, label %54
    i32 17, label %56
    i32 18, label %58
    i32 19, label %60
    i32 20, label %62
    i32 21, label %64
  ]

52:                                              
  %53 = add i32 %51, %46
  br label %68

54:                                              
  %55 = tail call i32 @llvm.smin.i32(i32 %46, i32 %51)
  br label %68

56:                                              
  %57 = tail call i32 @llvm.smax.i32(i32 %46, i32 %51)
  br label %68

58:                                              
  %59 = tail call i32 @llvm.umin.i32(i32 %46, i32 %51)
  br label %68

60:                                              
  %61 = tail call i32 @llvm.umax.i32(i32 %46, i32 %51)
  br label %68

62:                                              
  %63 = and i32 %51, %46
  br label %68

64:                                              
  %65 = or i32 %51, %46
  br label %68

66:                                              
  %67 = xor i32 %51, %46
  br label %68

68:                                              
  %69 = phi i32 [ %67, %66 ], [ %53, %52 ], [ %55, %54 ], [ %57, %56 ], [ %59, %58 ], [ %61, %60 ], [ %63, %62 ], [ %65, %64 ]
  %70 = add i32 %47, -1
  %71 = and i32 %70, %47
  %72 = icmp eq i32 %71, 0
  br i1 %72, label %73, label %45

73:                                              
  %74 = phi i32 [ 0, %35 ], [ %10, %9 ], [ %26, %24 ], [ %29, %27 ], [ %34, %30 ], [ %41, %37 ], [ %69, %68 ]
  %75 = icmp eq i32 %2, 0
  br i1 %75, label %81, label %76

76:                                              
  %77 = icmp eq i32 %7, 14
  %78 = add i32 %7, -13
  %79 = icmp ult i32 %78, 2
  %80 = getelementptr inbounds nuw i8, ptr %1, i64 4
  br label %82

81:                                              
  ret void

82:                                              
  %83 = phi i32 [ %74, %76 ], [ %133, %131 ]
  %84 = phi i32 [ %2, %76 ], [ %139, %131 ]
  %85 = phi i32 [ 0, %76 ], [ %132, %131 ]
  %86 = tail call i32 @llvm.cttz.i32(i32 %84, i1 true)
  br i1 %79, label %87, label %131

87:                                              
  %88 = zext nneg i32 %86 to i64
  %89 = getelementptr inbounds nuw i32, ptr %0, i64 %88
  %90 = load i32, ptr %89, align 4
  br label %91

91:                                              
  %92 = phi i64 [ 0, %87 ], [ %101, %91 ]
  %93 = phi i32 [ 0, %87 ], [ %100, %91 ]
  %94 = getelementptr inbounds nuw i32, ptr %0, i64 %92
  %95 = load i32, ptr %94, align 4
  %96 = icmp eq i32 %95, %90
  %97 = zext i1 %96 to i32
  %98 = trunc nuw nsw i64 %92 to i32
  %99 = shl nuw i32 %97, %98
  %100 = or i32 %99, %93
  %101 = add nuw nsw i64 %92, 1
  %102 = icmp eq i64 %101, 32
  br i1 %102, label %103, label %91

103:                                             
  %104 = and i32 %100, %2
  %105 = load i32, ptr %80, align 4
  %106 = and i32 %105, 8
  %107 = icmp eq i32 %106, 0
  br i1 %107, label %125, label %108

108:                                             
  %109 = getelementptr inbounds nuw i32, ptr %4, i64 %88
  %110 = load i32, ptr %109, align 4
  br label %111

111:                                             
  %112 = phi i64 [ 0, %108 ], [ %121, %111 ]
  %113 = phi i32 [ 0, %108 ], [ %120, %111 ]
  %114 = getelementptr inbounds nuw i32, ptr %4, i64 %112
  %115 = load i32, ptr %114, align 4
  %116 = icmp eq i32 %115, %110
  %117 = zext i1 %116 to i32
  %118 = trunc nuw nsw i64 %112 to i32
  %119 = shl nuw i32 %117, %118
  %120 = or i32 %119, %113
  %121 = add nuw nsw i64 %112, 1
  %122 = icmp eq i64 %121, 32
  br i1 %122, label %123, label %111

123:                                             
  %124 = and i32 %120, %104
  br label %125

125:                                             
  %126 = phi i32 [ %124, %123 ], [ %104, %103 ]
  br i1 %77, label %127, label %131

127:                                             
  %128 = icmp eq i32 %126, %2
  %129 = zext i1 %128 to i32
  %130 = select i1 %128, i32 %2, i32 0
  br label %131

131:                                             
  %132 = phi i32 [ %129, %127 ], [ %85, %125 ], [ %85, %82 ]
  %133 = phi i32 [ %130, %127 ], [ %126, %125 ], [ %83, %82 ]
  %134 = zext nneg i32 %86 to i64
  %135 = getelementptr inbounds nuw i32, ptr %5, i64 %134
  store i32 %133, ptr %135, align 4
  %136 = trunc nuw nsw i32 %132 to i8
  %137 = getelementptr inbounds nuw i8, ptr %6, i64 %134
  store i8 %136, ptr %137, align 1
  %138 = add i32 %84, -1
  %139 = and i32 %138, %84
  %140 = icmp eq i32 %139, 0
  br i1 %140, label %81, label %82
}

declare i32 @llvm.ctlz.i32(i32, i1 immarg)

declare i32 @llvm.umax.i32(i32, i32)

declare i32 @llvm.umin.i32(i32, i32)

declare i32 @llvm.smax.i32(i32, i32)

declare i32 @llvm.smin.i32(i32, i32)
